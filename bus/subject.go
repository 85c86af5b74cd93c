package bus

import (
	"fmt"
	"strings"
)

// Root is the first part of every subject; the version is part of it.
const Root = "souk.v1."

// MaxID bounds the length of an id (client, task, agent, domain, session) in bytes.
const MaxID = 64

// ValidID reports whether s may be a subject token: 1 to MaxID letters, digits, '-' and '_'.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxID {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// CheckID returns an error that names the field if s is not a valid id.
func CheckID(field, s string) error {
	if ValidID(s) {
		return nil
	}
	return fmt.Errorf("%s: %.80q is not an id: use 1 to %d letters, digits, '-' or '_'", field, s, MaxID)
}

func TaskSubject(client string) string           { return Root + "task." + client }
func HubTaskSubject(domain string) string        { return Root + "hub." + domain + ".task" }
func SummarySubject(domain, agent string) string { return Root + "hub." + domain + ".summary." + agent }
func CompletionSubject(domain, agent string) string {
	return Root + "hub." + domain + ".completion." + agent
}
func FeedbackSubject(domain, client string) string {
	return Root + "hub." + domain + ".feedback." + client
}
func CancelSubject(domain, client string) string { return Root + "hub." + domain + ".cancel." + client }

// DoorCancelSubject is where a client cancels a task of which it has heard nothing yet, so that only the door
// knows who has it. Every door listens.
func DoorCancelSubject(client string) string { return Root + "cancel." + client }

func DispatchSubject(agent, domain string) string {
	return Root + "agent." + agent + ".dispatch." + domain
}
func CallSubject(agent, domain string) string   { return Root + "agent." + agent + ".call." + domain }
func AskSubject(domain, agent string) string    { return Root + "hub." + domain + ".ask." + agent }
func StreamSubject(agent, client string) string { return Root + "agent." + agent + ".stream." + client }
func StatusSubject(domain string) string        { return Root + "status." + domain }
func ReplySubject(client, task string) string   { return Root + "reply." + client + "." + task }

// LedgerSubject is where the treasury hears an operation of who: an operator, or a hub by its journal.
func LedgerSubject(op, who string) string { return Root + "ledger." + op + "." + who }

// BalanceSubject is where a client asks what it has, or asker for it: a gateway or an operator. The answer is
// for that client alone.
func BalanceSubject(client, asker string) string {
	s := LedgerSubject(OpBalance, client)
	if asker == "" || asker == client {
		return s
	}
	return s + "." + asker
}

// LedgerSubjects is every subject of [LedgerSubject] and [BalanceSubject].
const LedgerSubjects = Root + "ledger.>"

// ParseLedger takes a subject of the treasury's apart: the operation, and who asks for it; for a balance the
// client whose it is comes first, and asks itself where nobody else is named.
func ParseLedger(subject string) (op, client, who string, ok bool) {
	rest, ok := strings.CutPrefix(subject, Root+"ledger.")
	if !ok {
		return "", "", "", false
	}
	op, who, ok = strings.Cut(rest, ".")
	if op == OpBalance {
		client = who
		if first, asker, more := strings.Cut(who, "."); more {
			client, who = first, asker
		}
		ok = ok && ValidID(client)
	}
	return op, client, who, ok && ValidID(who)
}

// InboxOf is where the answers to somebody's requests go, in tokens below it.
func InboxOf(name string) string { return "_INBOX." + name }

// AnswersTo reports whether an answer to a request may go to a subject: below the inbox of whom the request's
// own subject names last. A reply subject is the asker's word; anything else would have the answerer speak
// for somebody.
func AnswersTo(request, reply string) bool {
	rest, ok := strings.CutPrefix(reply, InboxOf(LastToken(request))+".")
	return ok && rest != ""
}

// RecallSubject is where a domain's hub hears which money it is to give back. treasury is the name of the
// journal of who asks.
func RecallSubject(domain, treasury string) string {
	return Root + "hub." + domain + ".recall." + treasury
}

// LastToken is the part of a subject after its last dot: the sender, by the house's rule.
func LastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// ValidReply reports whether a subject lies under souk.v1.reply., the only place agents may publish answers.
func ValidReply(subject string) bool {
	rest, ok := strings.CutPrefix(subject, Root+"reply.")
	if !ok {
		return false
	}
	client, task, ok := strings.Cut(rest, ".")
	return ok && ValidID(client) && ValidID(task)
}
