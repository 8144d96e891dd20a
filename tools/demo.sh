#!/bin/sh
# Run the main job on a copy of the sample home and show what it found; then edit one file and run again.
set -eu
. tools/demo_env.sh
rm -rf "$DEMO"
mkdir -p "$DEMO"
cp -R data/sample "$DEMO/home"

BOLD='' DIM='' PLAIN=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then BOLD=$(printf '\033[1m') DIM=$(printf '\033[2m') PLAIN=$(printf '\033[0m'); fi
step() { printf '\n%s%s%s\n' "$BOLD" "$1" "$PLAIN"; }
run() { printf '%s$ memory %s%s\n' "$DIM" "$*" "$PLAIN"; memory "$@"; }

step "1. Ingest the sample home: Claude Code silos, seed.json and the LEARNING store"
run run

step "2. Count the memories by type and silo"
run status

step "3. List the refused files with the reason and the fix"
run status --refused

step "4. Search, with the score of each hit and the path through the graph that explains it"
run search "why did we leave MongoDB" --explain --bridges --limit 3

step "5. Edit one file; only its memory is rebuilt"
file="$MEMORY_CLAUDE_PROJECTS_DIR/-home-mira-work-atlas/memory/billing-export-handover.md"
sed -i.before 's/Second in line is Mira\./Second in line is Leila Farahmoun since November 2026./' "$file"
rm -f "$file.before"
run run
run search "who is second in line for the billing export" --limit 2
run search "who is second in line for the billing export" --limit 3 --history

step "6. After searches a run updates only the scores; if nothing changed, it does not even start Dagster"
run run
run run

printf '\nEverything is in %s; `make dev` opens the Dagster UI on it.\n' "$DEMO"
