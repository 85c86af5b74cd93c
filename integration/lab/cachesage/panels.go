package cachesage

import (
	"fmt"
	"math"

	"souk/bus/policy"
)

// Panels are the workloads, each on the caches on which it is compared.
func Panels() (all []*Panel) {
	add := func(p Panel) { all = append(all, &p) }
	for _, set := range []struct{ name, file string }{
		{"gsm8k", "gsm8k.jsonl"}, {"humaneval", "humaneval.jsonl"}, {"hotpotqa", "hotpotqa.jsonl.gz"},
		{"coqa", "coqa.jsonl"},
	} {
		add(Panel{Name: "star-" + set.name, About: "a supervisor and five others on prompts of " + set.name +
			", as many steps as in Who&When, 50 tasks, 4 at a time", Block: 16, Blocks: 120, slots: 4,
			calls: star(lengths(set.file)(), stepsOf("whowhen-generated.jsonl.gz"), 50)})
	}
	add(Panel{Name: "chain", About: "twelve roles that always follow one another, twice round, 50 tasks, one " +
		"at a time", Block: 16, Blocks: 250, slots: 1, calls: chain(50)})
	for _, x := range []struct{ blocks, slots int }{{1000, 4}, {4000, 1}, {4000, 4}, {4000, 16}, {16000, 4}} {
		add(Panel{Name: name("hand-crafted", x.blocks, x.slots),
			About: "Who&When, hand-crafted; anchors of 600 tokens assumed", Block: 16, Blocks: x.blocks,
			slots: x.slots, calls: logs("whowhen-hand.jsonl.gz", 600, atOnce)})
	}
	add(Panel{Name: "hand-crafted-4000-4-even", About: "Who&When, hand-crafted; every call takes a second",
		Block: 16, Blocks: 4000, slots: 4, even: true, calls: logs("whowhen-hand.jsonl.gz", 600, atOnce)})
	for _, x := range []struct{ blocks, slots int }{{500, 4}, {1000, 1}, {1000, 4}, {1000, 16}, {4000, 4}} {
		add(Panel{Name: name("generated", x.blocks, x.slots),
			About: "Who&When, algorithm-generated, with its own system prompts", Block: 16, Blocks: x.blocks,
			slots: x.slots, calls: logs("whowhen-generated.jsonl.gz", 0, atOnce)})
	}
	for _, blocks := range []int{500, 1000} {
		add(Panel{Name: name("tau-bench", blocks, 4), About: "tau-bench airline, one role; people take 8 s, tools 1",
			Block: 16, Blocks: blocks, slots: 4, calls: logs("tau-calls.jsonl.gz", 3039, people)})
	}
	for _, set := range []string{"magagent", "miniswe", "taubench"} {
		add(Panel{Name: "lmcache-" + set, About: "lmcache-agent-trace, " + set + ", recorded times, a third of " +
			"what is open fits", Block: 16, slots: 4, fill: 3,
			calls: chained([]string{"lmcache-" + set + ".jsonl.gz"}, 100, 200, 1,
				func(int) policy.ID { return 0 })})
	}
	for _, p := range []float64{3, 5} {
		for _, ends := range []bool{false, true} {
			x := Panel{Name: "coding-P3", About: "kv-cache-tester, recorded pauses, the first 60 turns of 96 " +
				"sessions, 32 open, a third of their blocks fits", Block: 512, slots: 32, fill: p, Ends: ends,
				calls: chained([]string{"agents.jsonl.gz"}, 96, 60, 8, func(int) policy.ID { return 0 })}
			if p == 5 {
				x.Name, x.About = "coding-P5", "the same, a fifth fits"
			}
			if ends {
				x.Name, x.About = x.Name+"-ends", x.About+"; ends are told"
			}
			add(x)
		}
	}
	for _, p := range []float64{3, 5} {
		for _, ends := range []bool{false, true} {
			x := Panel{Name: "coding-open200-P3", About: "kv-cache-tester, recorded pauses, all 406 sessions " +
				"whole, 200 open, a third of what they have used fits", Block: 512, slots: 200, fill: p,
				whole: true, Ends: ends, rules: []string{"lru", toldRule, "paper", "ours", "belady"},
				calls: chained([]string{"agents.jsonl.gz", "agents-rest.jsonl.gz"}, math.MaxInt, math.MaxInt,
					8, func(int) policy.ID { return 0 })}
			if p == 5 {
				x.Name, x.About = "coding-open200-P5", "the same, a fifth fits"
			}
			if ends {
				x.Name, x.About = x.Name+"-ends", x.About+"; ends are told"
			}
			add(x)
		}
	}
	add(Panel{Name: "mooncake", About: "Mooncake's conversations, recorded times, a third of what is open fits",
		Block: 512, slots: 64, fill: 3, calls: chained([]string{"mooncake.jsonl.gz"}, 800, 50, 1,
			func(int) policy.ID { return 0 })})
	return all
}

func name(of string, blocks, slots int) string { return fmt.Sprintf("%s-%d-%d", of, blocks, slots) }
