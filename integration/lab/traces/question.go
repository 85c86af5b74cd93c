package traces

// Question is a question to which answers of several models were recorded: how good each was, 0 to 1, and
// how many tokens the question and the answer had.
type Question struct {
	Task   string                `json:"task"`
	Models map[string][3]float64 `json:"models"` // score, tokens of the question, of the answer
}

// Questions reads those of RouteProfile, without their texts.
func Questions() ([]Question, error) { return bundled[Question]("routed.jsonl.gz") }
