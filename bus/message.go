// Package bus is the language of the market: its messages, subjects, keys and ports.
package bus

// Message is anything said in the market. Only types of this package are messages.
type Message interface {
	message()
	// Validate reports what is out of range. It says nothing of fields that are merely empty where
	// another part fills them in later.
	Validate() error
}

func (*Call) message()          {}
func (*Ask) message()           {}
func (*Task) message()          {}
func (*Accepted) message()      {}
func (*Answer) message()        {}
func (*Dispatch) message()      {}
func (*DispatchReply) message() {}
func (*Chunk) message()         {}
func (*Result) message()        {}
func (*Completion) message()    {}
func (*CompletionAck) message() {}
func (*Cancel) message()        {}
func (*StreamControl) message() {}
func (*HoldControl) message()   {}
func (*Feedback) message()      {}
func (*Summary) message()       {}
func (*Holdings) message()      {}
func (*Status) message()        {}
