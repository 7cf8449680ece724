#!/usr/bin/env bash
# What action.yml runs: base and head as two levels of one sweep, compared, and a comment with the
# table. Everything comes from the environment, so that nothing is pasted into a command.
set -euo pipefail
export MEMLAB_STORE=${RUNNER_TEMP:-/tmp}/memlab-action.db
read -ra arguments <<<"${ARGUMENTS:-}"
gate=(--fail-on "${FAIL_ON:-regression}")
[[ ${gate[1]} == nothing ]] && gate=()

# What is refused is a line on the step's page too.
refused=$(mktemp)
memlab sweep "$EXPERIMENT" -p "$FACTOR=$BASE,$HEAD" --blocks "${BLOCKS:-12}" --no-controls \
	--quiet "${arguments[@]}" 2>"$refused" || {
	closed=$?
	cat "$refused" >&2
	line=$(tail -n 1 "$refused" | tr '`<>@' "'()_")
	[[ -z ${GITHUB_STEP_SUMMARY:-} ]] ||
		printf 'memlab measured nothing:\n\n`%s`\n' "$line" >>"$GITHUB_STEP_SUMMARY"
	exit "$closed"
}
cat "$refused" >&2
rm -f "$refused"

# The table that memlab adds to the step's page is the comment as well.
table=$(mktemp)
closed=0
GITHUB_STEP_SUMMARY=$table memlab compare last --baseline "$FACTOR=$BASE" \
	--threshold "${THRESHOLD:-5%}" "${gate[@]}" --format github || closed=$?
((closed <= 1)) || exit "$closed"
[[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat "$table" >>"$GITHUB_STEP_SUMMARY"

if [[ ${COMMENT:-true} == true && -n ${PULL_REQUEST:-} ]]; then
	# A pull request from a fork may not comment: then the step's page has the table.
	gh pr comment "$PULL_REQUEST" --edit-last --create-if-none --body-file "$table" ||
		echo "::notice::memlab could not comment; the table is on this job's summary page"
fi
rm -f "$table"
exit "$closed"
