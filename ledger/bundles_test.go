package ledger

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
)

// oldFrames reads a journal as a hub wrote it when it still placed tasks that begin alike in bundles.
func oldFrames(t *testing.T) (frames []stored) {
	t.Helper()
	text, err := os.ReadFile("testdata/bundles.frames")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var f stored
		var data string
		if line[0] == '#' {
			continue
		}
		if _, err := fmt.Sscan(line, &f.seq, &f.epoch, &data); err != nil {
			t.Fatal(err)
		}
		if f.data, err = base64.RawStdEncoding.DecodeString(data); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// A journal with rounds in bundles, as hubs wrote it, is audited as before, and the report says that they
// were cleared again.
func TestAnOldJournalWithBundles(t *testing.T) {
	frames := oldFrames(t)
	r := audit("old", MaxLevel, frames).Finish()
	for _, f := range r.Findings {
		t.Error(f)
	}
	if r.Rounds != 3 || r.Again != 2 || r.Payments == 0 || r.Payments != r.Payouts+r.Surplus+r.Fees {
		t.Errorf("%+v", r)
	}
	for i, f := range frames {
		got, err := DecodeFrame(f.data)
		if err != nil || !bytes.Equal(AppendFrame(nil, &got), f.data) {
			t.Fatalf("frame %d is written otherwise now: %v", f.seq, err)
		}
		if len(got.Records) == 0 || got.Records[0].Round == nil ||
			len(got.Records[0].Round.Round.Bundles) == 0 {
			continue
		}
		got.Records[0].Round.Outcome.Welfare++
		forged := audit("old", LevelAuctions, []stored{frames[0], {2, f.epoch, AppendFrame(nil,
			&got)}}).Finish()
		if !strings.Contains(fmt.Sprint(forged.Findings), "clearing with its bundles gives another") {
			t.Errorf("frame %d of %d: a forged outcome: %v", i, len(frames), forged.Findings)
		}
	}
}
