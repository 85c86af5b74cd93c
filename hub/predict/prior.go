package predict

import "time"

// What is assumed of an agent that nobody has seen run: an 8B to 32B model on one GPU, some 8,000 prompt
// tokens a second, a few milliseconds per running task. It fades after the first few tasks.
const (
	base     = 30 * time.Millisecond  // to the first token of a fully cached prompt on an idle engine
	perToken = 120 * time.Microsecond // added per uncached prompt token
	perTask  = 2 * time.Millisecond   // added per task that decodes on the agent
	share    = 0.4                    // of max_tokens that an answer uses
	assuming = 2.0                    // tasks that this counts as
	memory   = 200.0                  // tasks of an agent after which what was seen counts a third
)

// assumed is the line: a task waits for the whole backlog.
var assumed = line{ms(base), ms(perToken) * 1000, 0, 1, ms(perTask), 0}
