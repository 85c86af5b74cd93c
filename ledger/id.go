package ledger

import (
	"strconv"
	"strings"
)

// Ids of records are made from (journal, round, slot, kind) or from the operation's own id, never from
// time or chance, so that a repeat after a crash has the id of the first time.

// RoundID is the id of a round's record: "<journal>/<round>".
func RoundID(journal string, round uint64) string {
	return journal + "/" + strconv.FormatUint(round, 10)
}

// HoldID is the id of a hold, as printed on receipts: "<journal>/<round>/<slot>".
func HoldID(journal string, round uint64, slot int) string {
	var memory [128]byte
	b := append(memory[:0], journal...)
	b = append(b, '/')
	b = strconv.AppendUint(b, round, 10)
	b = append(b, '/')
	return string(strconv.AppendInt(b, int64(slot), 10))
}

// CaptureID is the id of a hold's capture; a hold has at most one.
func CaptureID(hold string) string { return hold + "/capture" }

// numbered is the id of the n-th record of a kind between a hub and the treasury.
func numbered(hub, kind string, n uint64) string {
	return hub + "/" + kind + "/" + strconv.FormatUint(n, 10)
}

// ParseHoldID takes a hold's id apart. ok is false if s is not exactly what HoldID returns.
func ParseHoldID(s string) (journal string, round uint64, slot int, ok bool) {
	journal, rest, ok := strings.Cut(s, "/")
	if !ok || !ValidID(journal) {
		return "", 0, 0, false
	}
	if round, slot, ok = parseSlot(rest); !ok {
		return "", 0, 0, false
	}
	return journal, round, slot, true
}

// parseSlot takes "<round>/<slot>" apart.
func parseSlot(s string) (round uint64, slot int, ok bool) {
	first, second, _ := strings.Cut(s, "/")
	round, ok = parseNumber(first)
	n, is := parseNumber(second)
	return round, int(n), ok && is && n <= maxSlots
}

// parseNumber reads digits without a sign or leading zeros: one number has one spelling.
func parseNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && (len(s) == 1 || s[0] != '0')
}
