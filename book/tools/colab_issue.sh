#!/bin/sh
# Keep at most one open issue about notebooks that fail on Colab.
#
#     sh book/tools/colab_issue.sh passed|failed issue.md
#
# failed: opens the issue, or gives the open one the new text. passed: closes it. Needs `gh`.
# In a repository without issues (a fork begins so) nothing happens.
set -eu

if [ "$(gh repo view --json hasIssuesEnabled --jq .hasIssuesEnabled)" = false ]; then
    echo "this repository has no issues: the badge and this run say how the notebooks ended"
    exit 0
fi

label=colab
title=$(cd "$(dirname "$0")/.." && python3 -c 'from tools import colab_report; print(colab_report.TITLE)')
gh label create "$label" --force --color B60205 \
    --description "Notebooks that fail in Colab's public image"
number=$(gh issue list --label "$label" --state open --limit 1 --json number --jq '.[0].number // ""')

case "$1" in
failed)
    if [ -n "$number" ]; then
        gh issue edit "$number" --body-file "$2"
    else
        gh issue create --title "$title" --label "$label" --body-file "$2"
    fi
    ;;
passed)
    if [ -n "$number" ]; then
        gh issue close "$number" --comment "All notebooks pass again."
    fi
    ;;
*)
    echo "expected passed or failed, not: $1" >&2
    exit 2
    ;;
esac
