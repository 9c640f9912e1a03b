#!/usr/bin/env bash
# Shows what the env file means, and refuses some of what cannot boot. It does not look at k.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
ENV_FILE="${ENV_FILE:-$here/.env.dspark}"
COMPOSE_FILE="${COMPOSE_FILE:-$here/docker-compose.dspark.yml}"
for file in "$ENV_FILE" "$COMPOSE_FILE"; do
  [ -f "$file" ] || { echo "Missing $file." >&2 && exit 1; }
done
set -a
# shellcheck disable=SC1090
source "$ENV_FILE"
set +a
DRAFT_SAMPLE_METHOD="${DRAFT_SAMPLE_METHOD:-probabilistic}"
case "$DRAFT_SAMPLE_METHOD" in
  probabilistic | greedy) ;;
  *)
    echo "DRAFT_SAMPLE_METHOD must be one of: probabilistic, greedy (got: $DRAFT_SAMPLE_METHOD)" >&2
    exit 2
    ;;
esac
: "${WORKER_HOST:?WORKER_HOST must be set in $ENV_FILE}"
: "${MASTER_ADDR:?MASTER_ADDR must be set in $ENV_FILE}"
: "${DSPARK_VLLM_IMAGE:?DSPARK_VLLM_IMAGE must be set in $ENV_FILE}"
echo "DSpark config:"
echo "  worker: $WORKER_HOST"
echo "  image: $DSPARK_VLLM_IMAGE"
echo "  spec tokens (MTP_NUM_TOKENS): ${MTP_NUM_TOKENS:-5} with draft_sample_method=$DRAFT_SAMPLE_METHOD"
echo "  cudagraph capture size: $((${MAX_NUM_SEQS:-6} * (${MTP_NUM_TOKENS:-5} + 1)))"
echo "Rendered vLLM command:"
env -u NODE_RANK -u HEADLESS COMPOSE_DISABLE_ENV_FILE=1 docker compose --env-file "$ENV_FILE" -f "$COMPOSE_FILE" config |
  grep -E -- 'image:|MTP_NUM_TOKENS|DRAFT_SAMPLE_METHOD|--speculative-config'
