#!/usr/bin/env bash
# Runs inside the container, before vllm, where API keys are configured: keeps them out of the startup log.
set -euo pipefail
touch /opt/.api-key-log-redacted
