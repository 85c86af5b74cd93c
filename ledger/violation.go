package ledger

import (
	"errors"
	"fmt"
)

// Errors that callers decide by. All but ErrRepeat mean that nothing was applied because the record
// breaks a rule; they come wrapped in a [*Violation], which says which.
var (
	// ErrRepeat: the same record was applied before. Nothing happened, and nothing is wrong.
	ErrRepeat = errors.New("applied before")
	// ErrConflict: another record was applied under the same id.
	ErrConflict = errors.New("same id, other content")
	// ErrFunds: an account would fall below zero.
	ErrFunds = errors.New("insufficient funds")
	// ErrEnded: the hold has ended, or there never was one.
	ErrEnded = errors.New("no such open hold")
	// ErrOrder: sequence, epoch, time, round or number does not follow on what is there.
	ErrOrder = errors.New("out of order")
	// ErrIllegal: any other rule.
	ErrIllegal = errors.New("illegal record")
)

// Violation is a rule broken by a record or frame.
type Violation struct {
	Invariant string // I1 to I20; see [Invariants]
	Record    string // id, or "frame"
	Expected  string
	Found     string
	Err       error // one of the errors above
}

func (v *Violation) Error() string {
	return fmt.Sprintf("record %s: %s (%s): expected %s, found %s", clip(v.Record), v.Err, v.Invariant,
		v.Expected, v.Found)
}

// Plain says why a record was refused to whoever asked for it: in words, without names of records and rules.
func Plain(err error) string {
	if v := (*Violation)(nil); errors.As(err, &v) {
		return fmt.Sprintf("%s: want %s, and it is %s", v.Err, v.Expected, v.Found)
	}
	return err.Error()
}

func (v *Violation) Unwrap() error { return v.Err }

// Invariants names the promises of a journal.
var Invariants = []struct{ Name, Rule string }{
	{"I1", "every record sums to zero"},
	{"I2", "avail, held, prepaid, payable, surplus and fee are never negative"},
	{"I3", "a hold ends once"},
	{"I4", "a capture is at most its hold, and refunds are at most the capture"},
	{"I5", "payments = earnings + surplus + fees in every round"},
	{"I6", "a premium is the certified price, and the price of waiting one that was recorded before"},
	{"I7", "no gaps, epochs rise, one writer per epoch"},
	{"I8", "what was acknowledged is durable, and in every later checkpoint"},
	{"I9", "no dispatch without a durable hold, no pay without dispatch"},
	{"I10", "one id, one effect"},
	{"I11", "every grant is accepted once"},
	{"I12", "checkpoints form one chain"},
	{"I13", "what is recovered is at least what was signed"},
	{"I14", "replay = live state = snapshot"},
	{"I15", "everything is bounded"},
	{"I16", "after faults heal, every hold ends"},
	{"I17", "no panic or exhaustion from any input"},
	{"I18", "a client is never charged more than it deposited, over all hubs"},
	{"I19", "a refusal is truthful"},
	{"I20", "a hub is granted at most what doors vouched for and it returned"},
	{"I21", "above the bound that it names, an operator's order has a second operator's signature"},
	{"I22", "a month is closed once, with the balances there are, and later records of it say so"},
	{"I23", "by a rule surplus goes to whom the rule says, and no report moves who gets that of its round"},
}

// broken makes a Violation; format describes what was found.
func broken(err error, invariant, record, expected, format string, args ...any) *Violation {
	return &Violation{Invariant: invariant, Record: record, Expected: expected,
		Found: fmt.Sprintf(format, args...), Err: err}
}

// clip keeps hostile ids out of messages.
func clip(s string) string {
	if len(s) > 160 {
		return s[:160] + "..."
	}
	return s
}
