package replay

import (
	"embed"
	"fmt"
)

// The files keep the licences of their sources: data/NOTICE.md.
//
//go:embed data/*.jsonl data/*.jsonl.gz data/NOTICE.md
var files embed.FS

// bundled lists the bundled files in the order in which they are played, with a word for the report.
var bundled = []struct{ file, domain string }{
	{"coqa.jsonl", "CoQA"}, {"quac.jsonl", "QuAC"}, {"hotpotqa.jsonl.gz", "HotpotQA"},
	{"mtrag.jsonl.gz", "mtRAG"}, {"gsm8k.jsonl", "GSM8K"}, {"humaneval.jsonl", "HumanEval"},
}

// Bundled returns the dialogues that come with the program, those of all sources mixed evenly. Domain
// names the source.
func Bundled() ([]Dialogue, error) {
	var sets [][]Dialogue
	total := 0
	for _, b := range bundled {
		ds, err := BundledSet(b.file)
		if err != nil {
			return nil, err
		}
		for i := range ds {
			ds[i].Domain = b.domain
		}
		sets, total = append(sets, ds), total+len(ds)
	}
	return interleave(sets, total), nil
}

// BundledSet returns the dialogues of one of the files that come with the program.
func BundledSet(file string) ([]Dialogue, error) {
	f, err := files.Open("data/" + file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ds, err := ReadAll(f, Souk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return ds, nil
}

// interleave deals the sets out so that after any number of dialogues each has given its share.
func interleave(sets [][]Dialogue, total int) []Dialogue {
	out := make([]Dialogue, 0, total)
	given := make([]int, len(sets))
	for len(out) < total {
		best := -1
		for i, s := range sets {
			if given[i] == len(s) {
				continue
			}
			// The set that is furthest behind: least (given + 1/2) / size, compared without division.
			if best < 0 || (2*given[i]+1)*len(sets[best]) < (2*given[best]+1)*len(s) {
				best = i
			}
		}
		out = append(out, sets[best][given[best]])
		given[best]++
	}
	return out
}
