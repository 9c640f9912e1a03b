#!/usr/bin/env bash
# Sends a handful of chats at a time.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
CONCURRENCY="${CONCURRENCY:-6}"
if [ -f "$ENV_FILE" ]; then
  set -a
  # shellcheck disable=SC1090
  source "$ENV_FILE"
  set +a
fi
if [ -n "${VLLM_API_KEY:-}" ] && [ -n "${DSPARK_API_KEYS:-}" ]; then
  echo "error: VLLM_API_KEY and DSPARK_API_KEYS are both set; set exactly one of them" >&2
  exit 2
fi
key="${VLLM_API_KEY:-${DSPARK_API_KEYS:-}}"
authorization=()
[ -z "$key" ] || authorization=(-H "Authorization: Bearer ${key%% *}")
host="${VLLM_HOST:-127.0.0.1}"
case "$host" in 0.0.0.0 | ::) host=127.0.0.1 ;; esac
CHAT_URL="${CHAT_URL:-http://$host:${VLLM_PORT:-8888}/v1/chat/completions}"

echo "Running $CONCURRENCY-way smoke test against $CHAT_URL"
jobs=()
for number in $(seq 1 "$CONCURRENCY"); do
  curl -fsS --max-time 180 "${authorization[@]}" "$CHAT_URL" -H "Content-Type: application/json" \
    -d '{"model":"'"${SERVED_MODEL_NAME:-deepseek-v4-flash-dspark}"'","messages":[{"role":"user","content":"Say '"$number"'."}],"max_tokens":32,"temperature":0.0}' \
    >/dev/null &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || { echo "Smoke test failed." >&2 && exit 1; }
done
echo "Smoke test passed: $CONCURRENCY/$CONCURRENCY requests succeeded."
