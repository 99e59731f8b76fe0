#!/bin/sh
# Put the badge's file on the branch `badges`, as its only commit; nothing else changes.
#
#     sh book/tools/colab_badge.sh colab.json
#
# The branch shares no history with the book: a robot writes to it every week, and the book's own
# history stays the authors'.
set -eu

blob=$(git hash-object -w "$1")
tree=$(printf '100644 blob %s\tcolab.json\n' "$blob" | git mktree)
name="github-actions[bot]"
mail="41898282+github-actions[bot]@users.noreply.github.com"
commit=$(GIT_AUTHOR_NAME=$name GIT_AUTHOR_EMAIL=$mail GIT_COMMITTER_NAME=$name \
    GIT_COMMITTER_EMAIL=$mail git commit-tree "$tree" -m "Badge of the notebooks on Colab")
git push --quiet --force origin "$commit:refs/heads/badges"
