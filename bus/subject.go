package bus

import (
	"cmp"
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

// CheckBounds returns an error that names the field if v is not between two values.
func CheckBounds[V cmp.Ordered](field string, v, least, most V) error {
	if v >= least && v <= most {
		return nil
	}
	return fmt.Errorf("%s: %v is not from %v to %v", field, v, least, most)
}

// A subject names the addressee, then the message, then the sender: its last token. Where a gateway speaks
// for a client, the client stands before it; gateway is "" where the client speaks itself.

func TaskSubject(client, gateway string) string { return Root + "task." + spoken(client, gateway) }

// QuoteSubject is the subject of a client's questions for a quote.
func QuoteSubject(client, gateway string) string { return Root + "quote." + spoken(client, gateway) }

// DoorCancelSubject is the subject to cancel a task of which its sender has heard nothing yet, so that only
// the door knows who has it. Every door listens.
func DoorCancelSubject(client, gateway string) string {
	return Root + "cancel." + spoken(client, gateway)
}

// EndSubject is the subject on which doors hear that a client's session has ended.
func EndSubject(client, gateway string) string { return Root + "end." + spoken(client, gateway) }

func FeedbackSubject(domain, client, gateway string) string {
	return Root + "hub." + domain + ".feedback." + spoken(client, gateway)
}

func spoken(client, gateway string) string {
	if gateway == "" {
		return client
	}
	return client + "." + gateway
}

// Speaks returns whom a message is for and who sent it. subject is one of those above, and kind the part of
// it before the client, as TaskSubject("", "") and the like return it. Both are "" if subject is none of
// these.
func Speaks(subject, kind string) (client, sender string) {
	client, ok := strings.CutPrefix(subject, kind)
	if !ok {
		return "", ""
	}
	client, sender, two := strings.Cut(client, ".")
	if !two {
		sender = client
	}
	if !ValidID(client) || !ValidID(sender) {
		return "", ""
	}
	return client, sender
}

func HubTaskSubject(domain, door string) string  { return Root + "hub." + domain + ".task." + door }
func HubQuoteSubject(domain, door string) string { return Root + "hub." + domain + ".quote." + door }
func HubEndSubject(domain, door string) string   { return Root + "hub." + domain + ".end." + door }
func SummarySubject(domain, agent string) string { return Root + "hub." + domain + ".summary." + agent }
func HoldingsSubject(domain, agent string) string {
	return Root + "hub." + domain + ".holdings." + agent
}
func CompletionSubject(domain, agent string) string {
	return Root + "hub." + domain + ".completion." + agent
}

// CancelSubject is the subject of cancels to a hub by sender: the task's client, or its door or gateway.
func CancelSubject(domain, sender string) string { return Root + "hub." + domain + ".cancel." + sender }

// TakenSubject is the subject of an agent's reply on a hold, whose place in the journal it names, or of the
// server's error where no agent listens.
func TakenSubject(domain, hold, agent string) string {
	place := hold
	if _, after, found := strings.Cut(hold, "/"); found {
		place = strings.Replace(after, "/", "-", 1)
	}
	return Root + "hub." + domain + ".taken." + place + "." + agent
}

// Taken splits a subject of TakenSubject that is a domain's and an agent's; place is "" if it is none.
func Taken(subject, domain, agent string) (place string) {
	rest, ok := strings.CutPrefix(subject, Root+"hub."+domain+".taken.")
	place, by, _ := strings.Cut(rest, ".")
	if !ok || by != agent || !ValidID(place) {
		return ""
	}
	return place
}

func DispatchSubject(agent, domain string) string {
	return Root + "agent." + agent + ".dispatch." + domain
}
func CallSubject(agent, domain string) string { return Root + "agent." + agent + ".call." + domain }

// ControlSubject is the subject on which an agent hears its hub about holds.
func ControlSubject(agent, domain string) string {
	return Root + "agent." + agent + ".control." + domain
}

// StreamSubject is the subject on which an agent hears the reader of an answer.
func StreamSubject(agent, reader string) string {
	return Root + "agent." + agent + ".stream." + reader
}

// BodySubject is the subject on which the sender of a task hears a door or an agent ask for its body, and
// PieceSubject that of the answers to what was asked under a token.
func BodySubject(sender, asker string) string { return Root + "body." + sender + "." + asker }
func PieceSubject(asker, token, sender string) string {
	return Root + "piece." + asker + "." + token + "." + sender
}
func AskSubject(domain, agent string) string { return Root + "hub." + domain + ".ask." + agent }
func StatusSubject(domain string) string     { return Root + "status." + domain }

// LedgerSubject is the subject of a treasury operation by who: an operator, or a hub by its journal.
func LedgerSubject(op, who string) string { return Root + "ledger." + op + "." + who }

// BalanceSubject is the subject of questions for a client's balance, by itself or asker: a gateway or an
// operator. The answer is for that client alone.
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

// RecallSubject is the subject on which a domain's hub is asked to give money back. treasury is the name of
// the asking treasury's journal.
func RecallSubject(domain, treasury string) string {
	return Root + "hub." + domain + ".recall." + treasury
}

// ReplyTo is the subject prefix of a task's answer: its reader, and the reader's token for it.
func ReplyTo(reader, token string) string { return Root + "reply." + reader + "." + token }

// ReplySubject is the subject on which a sender sends messages of that answer.
func ReplySubject(reader, token, sender string) string { return ReplyTo(reader, token) + "." + sender }

// Replied splits a ReplySubject of one's own.
func Replied(subject string) (token, sender string) {
	i := strings.LastIndexByte(subject, '.')
	if i < 0 {
		return "", ""
	}
	return LastToken(subject[:i]), subject[i+1:]
}

// ReaderOf splits what ReplyTo says; ok is false if reply is nothing of that kind.
func ReaderOf(reply string) (reader, token string, ok bool) {
	rest, ok := strings.CutPrefix(reply, Root+"reply.")
	reader, token, two := strings.Cut(rest, ".")
	return reader, token, ok && two && ValidID(reader) && ValidID(token)
}

// LastToken is the part of a subject after its last dot: the sender, by the house's rule.
func LastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// InboxOf is the prefix of a process's inboxes: it hears no other answers.
func InboxOf(name string) string { return inboxes + name }

// AnswersTo reports whether the answer to a request may go to reply: to an inbox of the request's sender, and
// nowhere else. A reply subject is the asker's word, and who answers may publish where the asker may not.
func AnswersTo(request, reply string) bool {
	return IsInbox(reply) && strings.HasPrefix(reply[len(inboxes):], LastToken(request)+".")
}

// IsInbox reports whether a reply subject is somebody's inbox: one that a server lets who answers publish on,
// and not too long to keep until there is an answer.
func IsInbox(reply string) bool {
	below, ok := strings.CutPrefix(reply, inboxes)
	name, rest, two := strings.Cut(below, ".")
	return ok && two && ValidID(name) && len(reply) <= MaxInbox && rest != "" && rest[0] != '.' &&
		rest[len(rest)-1] != '.' && !strings.Contains(rest, "..") && !strings.ContainsAny(rest, "*> \t\r\n")
}

const inboxes = "_INBOX."

// MaxInbox bounds the length of an inbox. Ours have 123 bytes at most, those of other programs some 110.
const MaxInbox = 256
