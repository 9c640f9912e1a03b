#!/usr/bin/env bash
# Stops both ranks, of this project and of one that is named like this folder. Exit 0 is no proof that they are gone.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
COMPOSE_FILE="${COMPOSE_FILE:-$here/docker-compose.dspark.yml}"
PROJECT_NAME="${PROJECT_NAME:-deepseek-v4-flash}"
LEGACY_PROJECT_NAME="${LEGACY_PROJECT_NAME:-$(basename "$here" | tr '[:upper:]' '[:lower:]')}"
if [ -f "$ENV_FILE" ]; then
  set -a
  # shellcheck disable=SC1090
  source "$ENV_FILE"
  set +a
fi
: "${WORKER_HOST:?WORKER_HOST must be set in $ENV_FILE or environment}"
WORKER_DIR="${WORKER_SCRIPT_DIR:-${WORKER_DIR:-$here}}"
cd "$here"

failures=0
reachable=1
if ! ssh -o BatchMode=yes -o ConnectTimeout=10 "$WORKER_HOST" true >/dev/null 2>&1; then
  reachable=0
  echo "WARN: cannot reach worker $WORKER_HOST; its ranks will NOT be stopped." >&2
fi

# What stops one project where it runs: arguments are the project, the rank, the env file and the compose file.
stop_here='
if docker ps -aq --filter "label=com.docker.compose.project=$1" | grep -q .; then
  echo "Stopping DSpark 0731 on $(hostname) (project $1)..."
  docker ps -aq --filter "name=$1-vllm-dspark" | xargs -r docker rm -f >/dev/null 2>&1 || true
  COMPOSE_DISABLE_ENV_FILE=1 NODE_RANK="$2" docker compose -p "$1" --env-file "$3" -f "$4" down --remove-orphans -t 1 2>&1 |
    grep -v "No resource found to remove for project" || true
  docker ps -aq --filter "label=com.docker.compose.project=$1" | xargs -r docker rm -f >/dev/null 2>&1 || true
else
  echo "No DSpark 0731 resources for project $1 on $(hostname); skipping."
fi'

stop_project() {
  bash -c "$stop_here" stop "$1" 0 "$ENV_FILE" "$COMPOSE_FILE" || true
  if [ "$reachable" = 0 ]; then
    echo "WARN: worker $WORKER_HOST unreachable: main DSpark worker rank not stopped" >&2
    failures=$((failures + 1))
  elif ! ssh "$WORKER_HOST" "cd $(printf %q "$WORKER_DIR") && bash -s '$1' 1 .env.dspark docker-compose.dspark.yml" <<<"$stop_here"; then
    echo "WARN: main DSpark worker stop failed on $WORKER_HOST" >&2
    failures=$((failures + 1))
  fi
}

stop_project "$PROJECT_NAME"
[ "$LEGACY_PROJECT_NAME" = "$PROJECT_NAME" ] || stop_project "$LEGACY_PROJECT_NAME"
if [ "$failures" -gt 0 ]; then
  echo "WARN: $failures remote stop step(s) failed on $WORKER_HOST; the worker may still be serving a stale rank." >&2
  exit 1
fi
echo "DeepSeek V4 Flash DSpark stopped (text-only)."
