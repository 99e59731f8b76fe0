"""Sentences of four domains, written for this book, and two ways to make prompts of them.

Paper III compares prompts of many kinds ("mixed") with prompts of one domain. A domain narrows more
than meaning: lengths, last words and how certain the next word is change as well, and values at the
last token depend on the last token above all. So every sentence here can be cut in two ways:

    natural   whole, as its kind ends; lengths and last tokens differ
    matched   after its last " the", and of that the last `LENGTH` tokens: the same number of prompts,
              the same length and the same last token in every domain

The mixed sentences are of five kinds, as published: an encyclopedia, news, fiction, comments in
code, questions. The domain with published numbers is mathematics; code and philosophy are named beside it.
"""

from __future__ import annotations

LENGTH = 9  # tokens of a matched prompt, " the" at its end
LAST = " the"

ENCYCLOPEDIA = (
    "The lighthouse was built of white stone and stands on the cape",
    "Bees carry pollen from one flower to another and so help the plants",
    "The treaty ended a war of nine years and opened the border again",
    "Copper was one of the first metals that people in the valley melted",
    "The lake freezes in most winters and feeds two rivers in the south",
    "Her second symphony was played for the first time in the old theatre",
    "Owls hunt at night and find their prey with the help of sound",
    "The island has three villages and a harbour on the western side",
)
NEWS = (
    "The council voted on Tuesday night to close the bridge for repairs",
    "Two trains were late this morning because of snow on the line",
    "A spokesman said that nobody was hurt when the roof came down",
    "The team lost its third match in a row after the captain left",
    "Prices of bread and milk rose again in the last three months",
    "Police are looking for a red van that was seen near the airport",
    "The museum opens its new wing to visitors after the summer holidays",
    "Farmers in three counties hope for rain before the end of May",
)
FICTION = (
    "She put the letter back into the drawer and locked the door",
    "He had not spoken to his brother since the night of the fire",
    "The dog lifted its head and listened to steps on the stairs",
    "Nobody in the village remembered who had painted the blue gate",
    "Rain ran down the window while they waited for the doctor",
    "My grandmother kept her rings in a tin box under the bed",
    "They walked along the beach without a word until the sun set",
    "Before dawn the old man took his boat out on the river",
)
CODE = (
    "def close(self): # write what is left and release the file",
    "# sort the names first, because the loop below expects the order",
    "if not rows: return None # an empty table has the default type",
    "/* free the buffer here, or the next call leaks the memory */",
    "// retry three times, then give up and report the error code",
    "for line in log: print(line) # skip a header at the top",
    "# this lock must be held while another thread reads the cache",
    "git commit -m 'Fix a crash when users open the settings page'",
)
QUESTIONS = (
    "Can you tell me how I get from here to the station",
    "What should I cook tonight if I only have rice in the house",
    "Why is it that cats sleep so much during the day and run at night",
    "Which of these two phones would you buy for the better camera",
    "How long does it take until paint on a wall in the hall dries",
    "Is it true that bread keeps longer when it is in the fridge",
    "Do I have to pay tax on a gift that came from the aunt",
    "Who wrote a song about a yellow house near the sea",
)
MIXED = ENCYCLOPEDIA + NEWS + FICTION + CODE + QUESTIONS

MATHEMATICS = (
    "The sum of two even numbers is even, since both are in the ideal",
    "A matrix with independent columns has rank equal to the number of columns",
    "By the mean value theorem there is a point at which the slope is zero",
    "Every finite group of prime order is cyclic, so the quotient is abelian",
    "If a sequence of real numbers is bounded, it has by the theorem a limit point",
    "The area of a circle with radius r is pi times the square of r",
    "Let f be continuous on a closed interval and let m be the minimum",
    "Two triangles with equal angles are similar, and so the ratios agree",
    "To differentiate a product of functions one has to apply the product rule",
    "A prime that divides a product of integers divides one of the factors",
    "The determinant changes its sign when two of the rows are exchanged",
    "An eigenvector of a symmetric matrix is orthogonal to the other ones",
    "The integral of an odd function over an interval around the origin vanishes",
    "Suppose that x is a root of the polynomial and divide by the factor",
    "A linear map is injective exactly if its kernel is the zero space",
    "The harmonic series diverges although its terms tend to zero, by the test",
    "We prove by induction on n that the formula holds for the sum",
    "A graph without cycles that is connected has by the lemma one edge fewer",
    "The probability of two independent events is the product of the two",
    "Since the derivative is positive everywhere on it, f is increasing on the line",
    "The union of two open sets is open, and so is the intersection",
    "A complex number of modulus one lies for every angle on the unit circle",
    "Multiply both sides of that equation by two and then take the root",
    "The variance of a sum of independent variables equals the sum of variances",
    "In a right triangle with legs a and b the square of the hypotenuse is a sum",
    "A polynomial of degree n over a field has at most n roots in the field",
    "If n is odd, then n squared leaves the remainder one modulo four, by the lemma",
    "The inverse of a product of matrices is the product of inverses in the other order",
    "A function that has a left inverse is injective, and the converse holds",
    "Consider a ball of radius one in space and compute the volume of it",
    "The greatest common divisor of two integers is found by the algorithm",
    "By symmetry of this integral it is enough to look at the positive half",
    "A compact subset of the real numbers is closed and bounded, by the theorem",
    "The expected value of a fair die with six faces is the mean of them",
    "Two vectors are orthogonal exactly if their inner product is the number zero",
    "The logarithm of a product of positive numbers is the sum of logarithms",
    "Choose epsilon smaller than half of that distance between the two points",
    "For small angles x the sine of x is close to the angle itself",
    "The number of subsets of a set with n elements is the power of two",
    "Expand that expression at zero and keep only terms up to the second order",
)
PROGRAMS = (
    "def read(path): # open the file, and close it when the block is left",
    "for row in table: total += row[2] # the third column holds the price",
    "while not queue.empty(): # work until nothing is left in the line",
    "assert len(names) == len(set(names)) # no name may stand twice in the list",
    "try: load() except OSError: # the disk was full, so delete the copy",
    "x = x.reshape(n, -1) # keep the first axis and flatten all the others",
    "return sorted(words, key=len)[-1] # of equal ones take the last word",
    "if user is None: raise Denied # never tell a guest that the page exists",
    "// the caller owns this pointer and has to free it after the call",
    "int low = 0, high = n - 1; // both ends belong to the interval",
    "for (int i = 0; i < n; i++) sum += a[i]; // the loop reads the array once",
    "/* the hash of an empty string is zero, as in the old version */",
    "mutex.lock(); count++; mutex.unlock(); // two threads share the counter",
    "const url = base + id; // encode the id first, or the server answers 404",
    "button.onclick = () => save(form); // disable the button until the answer",
    "let found = items.filter(x => x.id !== id); // drop the item from the cart",
    "SELECT name FROM users WHERE age > 30; -- use the index on the second column",
    "INSERT INTO log VALUES (now(), 'start'); -- one line in the log for each run",
    "rm -rf build && make all # build the program from the sources again",
    "git rebase main # put the commits of the branch on top of the newest one",
    "chmod +x run.sh # let the owner of the file execute the script",
    "class Stack: # a list of which only the end is used by the caller",
    "import json # the settings lie in the folder above the program",
    "self.cache[key] = value # the oldest entry leaves when the cache is full",
    "print(f'{share:.1%} done') # show the user how far the work is",
    "fn area(r: f64) -> f64 { PI * r * r } // the radius is given in the same unit",
    "impl Drop for Guard // release the lock at the end of the block",
    "match line.parse() { Ok(n) => n, Err(_) => 0 } // a bad line counts as the zero",
    "@cached # the result is kept for the rest of the session",
    "df = df.dropna() # throw out the rows in which the date is missing",
    "model.eval() # turn off the noise before the network is scored on the test set",
    "loss.backward() # from the last layer to the first one of the network",
    "if (a > b) swap(a, b); // from here on the first is the smaller one",
    "#define MAX 64 // the longest name that the table can hold",
    "@media print { nav { display: none } } /* hide the menu on the paper */",
    "<img src='map.png' alt='A map'> <!-- the text is read when the image fails -->",
    "time.sleep(1) # give the server a second before the next request",
    "x, y = y, x % y # the remainder takes the place of the smaller number",
    "seen.add(node) # mark the node before the search goes to the neighbours",
    "raise ValueError(f'{n} is negative') # name the value in the message",
)

PHILOSOPHY = (
    "A promise binds even when nobody would suffer if the word were broken",
    "To know a thing is more than to be right about the thing by luck",
    "The ship whose planks were all replaced is still called by the old name",
    "If every choice has a cause, in what sense was the choice ours",
    "The sceptic asks how we can tell waking from the dream of waking",
    "A law that nobody could obey has lost the power to oblige",
    "What is true of each member need not be true of the whole",
    "The good that we do by chance earns us less than the good we intend",
    "Whether a colour is in the object or in the eye has long been disputed",
    "He argued that time is nothing but the order of events in the mind",
    "Pleasure may be the aim of an action without being the reason for it",
    "One cannot step twice, said the ancient writer, into the same river",
    "That something is natural does not show by the fact alone that it is right",
    "A just city gives to each of its parts the work that suits the part",
    "We call the will free when it follows the law that it gives to itself",
    "From the fact that we can imagine it nothing follows about the world",
    "The self that remembers may not be the self that the memory is about",
    "To doubt everything is still to think, and so the doubter exists",
    "A word has its meaning, on this view, from the use that people make of the word",
    "The existence of evil is the oldest argument against the goodness of a maker",
    "No number of white swans can prove the rule that all swans have the colour",
    "An idea that has no opposite tells us, some say, nothing about the world",
    "The prisoner in the cave takes the shadow on the wall for the thing",
    "Virtue is a habit, and it lies between the excess and the lack",
    "If God commands it because it is good, the good stands above the command",
    "The simplest of two theories is preferred, but the reason is in the dispute",
    "Others have minds like mine, but the proof is only by the likeness",
    "A machine that answers as we do may still lack the thing that we call the mind",
    "Equality before the judge is not the same as equality in the purse",
    "The happy life, the old teacher held, is a life according to the reason",
    "What we owe to people not yet born is a question for the state",
    "A contract that I never signed cannot be the source of the duty",
    "The beautiful pleases us without a concept and without the wish to own the thing",
    "Every science rests in the end on claims that the science cannot prove",
    "Death is nothing to us, wrote the sage, since we never meet the event",
    "The idea of a perfect island does not bring the island into being",
    "A punishment looks back to the deed or forward to the effect",
    "Things in themselves, on his account, lie behind the veil of the senses",
    "Lying to a murderer at the door divides the friends of the rule",
    "Between two equal bundles of hay the donkey of the fable starves",
)
DOMAINS = {"mixed": MIXED, "mathematics": MATHEMATICS, "code": PROGRAMS, "philosophy": PHILOSOPHY}
MAIN = ("mixed", "mathematics")  # those that have published numbers
CUTS = ("natural", "matched")


def matched(text: str) -> str:
    """A sentence up to and with its last " the".

    Raises:
        ValueError: if it has none.

    >>> matched("They sat on the roof of the house")
    'They sat on the roof of the'
    """
    place = text.rfind(LAST + " ")
    if place < 0:
        raise ValueError(f"{text!r} has no{LAST} inside it")
    return text[: place + len(LAST)]


def prompts(tokenizer, domain: str, cut: str) -> list[list[int]]:
    """The prompts of a domain as lists of tokens.

    Args:
        tokenizer: with `encode(text).ids`.
        domain: one of `DOMAINS`.
        cut: "natural" or "matched".
    Raises:
        ValueError: for another cut or domain, or a sentence that is too short for `LENGTH` tokens.
    """
    if domain not in DOMAINS or cut not in CUTS:
        raise ValueError(f"domain is {domain!r} and cut {cut!r}: choose among {', '.join(DOMAINS)} and {', '.join(CUTS)}")
    if cut == "natural":
        return [tokenizer.encode(text).ids for text in DOMAINS[domain]]
    found = [tokenizer.encode(matched(text)).ids for text in DOMAINS[domain]]
    for text, ids in zip(DOMAINS[domain], found, strict=True):
        if len(ids) < LENGTH:
            raise ValueError(f"{matched(text)!r} has {len(ids)} tokens, a matched prompt needs {LENGTH}")
    return [ids[-LENGTH:] for ids in found]
