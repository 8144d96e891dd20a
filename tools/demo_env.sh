# Environment of the demo: a copy of the sample home and a separate data folder, both below data/demo.
DEMO="$PWD/data/demo"
export MEMORY_DATA_DIR="$DEMO/data" MEMORY_CONFIG=/dev/null MEMORY_TENANT=main
export MEMORY_CLAUDE_PROJECTS_DIR="$DEMO/home/.claude/projects" MEMORY_PAI_SEED="$DEMO/home/.pai/seed.json"
export MEMORY_PAI_LEARNING_DIR="$DEMO/home/.pai/MEMORY/LEARNING" MEMORY_PAI_MAPPING="$DEMO/home/pai-mapping.json"
export DAGSTER_HOME="$DEMO/data/dagster"
mkdir -p "$HOME"
