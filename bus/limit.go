package bus

// Limits of a message's structure.
const (
	MaxMessage = 1 << 20 // bytes: the payload limit of the servers
	MaxItems   = 1 << 14 // of one array: a hostile byte may become a whole struct of a slice
	MaxMembers = 64      // of one map; our largest struct has half as many
)

// Limits of a prompt.
const (
	// bytes of an OpenAI body that travels within a message, and of a piece of a larger one
	MaxBody      = 512 << 10
	MaxLarge     = 32 << 20 // bytes of a body that travels in pieces: see [Large]
	MaxMessages  = 4096     // of one chat
	MaxCanonical = 4 << 20  // bytes of canonical text, in which pictures are short: a million tokens
	MaxPrefixes  = MaxCanonical/PrefixEvery + MaxMessages
)

// Limits of what an agent says it holds.
const (
	MaxPart  = 64 << 10 // bytes of prefix hashes in one message
	maxParts = 16
)

// An agent that has the whole of a large answer at once sends no more than AckWindow bytes of it before its
// reader acknowledges some, as it does after AckBytes.
const (
	AckBytes  = 64 << 10
	AckWindow = 8 * AckBytes
)

// Limits of what an answer may have delivered and still go on elsewhere. With the largest body they fit in
// one message.
const (
	MaxResumeTokens = MaxItems
	MaxResumeText   = 256 << 10 // bytes, with the reasoning
	MaxCalls        = 128       // tool calls
	MaxCallID       = 256       // bytes of a tool call's id
)
