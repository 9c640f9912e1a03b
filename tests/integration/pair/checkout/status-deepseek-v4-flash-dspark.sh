#!/usr/bin/env bash
# Shows containers, images and the API.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
COMPOSE_FILE="${COMPOSE_FILE:-$here/docker-compose.dspark.yml}"
PROJECT_NAME="${PROJECT_NAME:-deepseek-v4-flash}"
if [ -f "$ENV_FILE" ]; then
  set -a
  # shellcheck disable=SC1090
  source "$ENV_FILE"
  set +a
fi
: "${WORKER_HOST:?WORKER_HOST must be set in $ENV_FILE or environment}"
if [ -n "${VLLM_API_KEY:-}" ] && [ -n "${DSPARK_API_KEYS:-}" ]; then
  echo "error: VLLM_API_KEY and DSPARK_API_KEYS are both set; set exactly one of them" >&2
  exit 2
fi
key="${VLLM_API_KEY:-${DSPARK_API_KEYS:-}}"
authorization=()
[ -z "$key" ] || authorization=(-H "Authorization: Bearer ${key%% *}")
host="${VLLM_HOST:-127.0.0.1}"
case "$host" in 0.0.0.0 | ::) host=127.0.0.1 ;; esac
API_URL="${API_URL:-http://$host:${VLLM_PORT:-8888}/v1/models}"

echo "== head compose: $PROJECT_NAME =="
COMPOSE_DISABLE_ENV_FILE=1 docker compose -p "$PROJECT_NAME" --env-file "$ENV_FILE" -f "$COMPOSE_FILE" ps || true
list="docker ps -a --format '{{.Names}} {{.Status}} {{.Image}}' | grep -E 'deepseek|dspark|vllm' || true"
echo "== head matching containers =="
bash -c "$list"
echo "== worker matching containers =="
ssh -n "$WORKER_HOST" "$list" || true
echo "== port/API =="
#[august]
curl -fsS --max-time 5 "${authorization[@]}" "$API_URL" || true
#[september]
curl -fsS --max-time 5 "${authorization[@]}" "$API_URL" || exit 1
#[end]
echo
