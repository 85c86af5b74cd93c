package traces

// Workflow is a log of agents that work together: who said something, and how long it was, without the text.
type Workflow struct {
	ID string `json:"id"`
	// tokens that the prompts of a role begin with, where known
	Anchors map[string]int `json:"anchors,omitempty"`
	Steps   []Step         `json:"steps"`
}

// Step is one message: of a model in a role, which follows all messages before; or of somebody else.
type Step struct {
	Role   string `json:"role,omitempty"` // "": no model said it
	Tokens int    `json:"tokens"`
	Tool   string `json:"tool,omitempty"` // that it calls
}

// Workflows returns the logs of one of the files of this package.
func Workflows(file string) ([]Workflow, error) { return bundled[Workflow](file) }
