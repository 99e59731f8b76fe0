"""Sentences of two domains, written for this book, and two ways to make prompts of them.

Paper III compares prompts of many kinds ("mixed") with prompts of one domain. A domain narrows more
than meaning: lengths, last words and how certain the next word is change as well, and values at the
last token depend on the last token above all. So every sentence here can be cut in two ways:

    natural   whole, as its kind ends; lengths and last tokens differ
    matched   after its last " the", and of that the last `LENGTH` tokens: the same number of prompts,
              the same length and the same last token in both domains

The mixed sentences are of five kinds, as published: an encyclopedia, news, fiction, comments in
code, questions.
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
DOMAINS = {"mixed": MIXED, "mathematics": MATHEMATICS}
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
