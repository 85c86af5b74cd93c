// Package bus is the language of the market: its messages, subjects, keys and ports.
package bus

// Message is anything said in the market: messages lists all there are.
type Message interface {
	// Validate reports what is out of range. It says nothing of fields that are merely empty where
	// another part fills them in later.
	Validate() error
}

// messages has each message once, and entries each entry of the registry.
var (
	messages = []any{
		&Task{}, &Accepted{}, &Answer{}, &Dispatch{}, &DispatchReply{}, &Chunk{}, &Result{}, &Completion{},
		&CompletionAck{}, &StreamControl{}, &Summary{}, &Holdings{}, &HubQuote{}, &Quote{}, &Call{}, &Ask{},
		&Cancel{}, &HoldControl{}, &Feedback{}, &Status{}, &FundsRequest{}, &FundsReply{}, &Recall{},
		&RecallReply{}, &Feed{}, &SessionEnd{}, &SessionEnded{}, &BodyAsk{}, &BodyPiece{},
	}
	entries = []any{
		&Registration{}, &Claim{}, &HubEntry{}, &TreasuryEntry{}, &MarketConfig{}, &APIKey{}, &PrefixKeys{},
		&CacheGroup{}, &VouchKeys{},
	}
	parts = []any{&Prompt{}, &Resume{}, &Large{}}
)
