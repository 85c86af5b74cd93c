package bus

// Limits of a prompt.
const (
	// bytes of an OpenAI body: prompts travel inline, and must leave room in a message
	MaxBody      = 512 << 10
	MaxMessages  = 4096        // of one chat
	MaxCanonical = 2 * MaxBody // bytes of canonical text: its framing adds a few for each message
	MaxMarks     = MaxCanonical/MarkEvery + MaxMessages
)
