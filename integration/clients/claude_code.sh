# Claude Code against a gateway: it reads a file, runs it and answers. ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and the
# name of a model are all it knows.
command -v claude > /dev/null || exit 77
set -e
HOME=$(mktemp -d)
export HOME ANTHROPIC_MODEL=auto ANTHROPIC_SMALL_FAST_MODEL=auto CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
trap 'rm -rf "$HOME"' EXIT
cd "$HOME"
echo 'print(6 * 7)' > main.py
said=$(claude -p "What does main.py print?" --allowedTools "Bash(cat:*)" "Bash(python3:*)" \
  --output-format stream-json --verbose < /dev/null) || true
case $said in
*'"content":"print(6 * 7)"'*'"content":"42"'*'"subtype":"success"'*'"stop_reason":"end_turn"'*) echo ok ;;
*) echo "$said" && exit 1 ;;
esac
