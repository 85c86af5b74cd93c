package compare

import (
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

const frontierAbout = `Arrivals from a third of what the engines can serve to a quarter above it. Each rule is
played at each value of its knob, and a line joins these. The higher and the further to the left, the better:
welfare a second in thousandths of a credit against the first token that one in a hundred waits for. Rules
beside which another has as much of both, and more of one, are grey. [crowd](crowd.md) says what the market
and the engines are.
`

// Frontier is the page of rows that were played at every load and with every value of knobs.
func Frontier(command string, rows []virtual.Row) *page.Page {
	standings := Standings(rows)
	for i := range standings {
		standings[i].Anchor = anchor(standings[i].World) // each load has a heading of its own
	}
	p := &page.Page{Name: "frontier", Title: "Welfare against first tokens", Command: command,
		Plots: map[string]page.Plot{}, Figures: standings}
	var b strings.Builder
	b.WriteString(frontierAbout)
	fmt.Fprintf(&b, "\n## How the market stands\n\n%s\n%s", explained, Table(standings))
	all := worlds(rows)
	b.WriteString(bars(all))
	b.WriteString(frontierTried)
	byLoad(p, &b, all)
	for _, of := range all {
		front := virtual.Undominated(of)
		plot := page.Plot{Title: of[0].Trace + at(&of[0]), X: "p99 of first tokens, ms",
			Y: "welfare a second", LogX: true}
		var cells [][]string
		for i := range of {
			r := &of[i]
			mark := ""
			if front[i] {
				mark = "yes"
			}
			cells = append(cells, []string{r.Label(), mark, cell(r, virtual.Columns[0]), waits(r),
				fmt.Sprintf("%.3f", r.All["refused"].Mean), fmt.Sprintf("%.2f", r.All["bill"].Mean)})
			name := r.Rule
			if !standsOut(of, front, r.Rule) {
				name = "others"
			}
			w, p99 := r.All["welfare"], r.All["p99"]
			if name != "others" {
				s := plot.Of(name)
				s.Points = append(s.Points, page.Point{X: p99.Mean, Y: w.Mean, Within: w.Within,
					XWithin: p99.Within})
			}
		}
		others := page.Series{Name: "others", Loose: true}
		for i := range of {
			if r := &of[i]; !standsOut(of, front, r.Rule) {
				others.Add(r.All["p99"].Mean, r.All["welfare"].Mean, 0)
			}
		}
		if len(others.Points) > 0 {
			plot.Series = append(plot.Series, others)
		}
		fmt.Fprintf(&b, "\n## %s%s\n\nPlayed are %s.\n", of[0].Trace, at(&of[0]), of[0].Title())
		name := fmt.Sprint(len(p.Plots) + 1)
		p.Plots[name] = plot
		b.WriteString(page.Place(name) + page.Table([]string{"rule", "none has more of both", "welfare",
			"p99 ms",
			"refused", "bill"}, cells))
	}
	p.Text = b.String()
	return p
}

// standsOut says whether a rule stands out in a world: the market does, and who has a value that none is
// beyond.
func standsOut(rows []virtual.Row, front []bool, rule string) bool {
	if isMarket(rule) {
		return true
	}
	for i := range rows {
		if front[i] && rows[i].Rule == rule {
			return true
		}
	}
	return false
}

func waits(r *virtual.Row) string {
	e := r.All["p99"]
	if len(r.Seeds) == 1 {
		return fmt.Sprintf("%.0f", e.Mean)
	}
	return fmt.Sprintf("%.0f ± %.0f", e.Mean, e.Within)
}

// byLoad shows the market over loads, and the rules that have the greatest welfare at one of them, each at
// the value of its knob that is best there.
func byLoad(p *page.Page, b *strings.Builder, all [][]virtual.Row) {
	var names []string
	for _, of := range all {
		if best, _ := rivals(of); best != nil && !slices.Contains(names, best.Rule) {
			names = append(names, best.Rule)
		}
	}
	plots := map[string]*[2]page.Plot{}
	var order []string
	for _, of := range all {
		world := of[0].Trace + strings.TrimPrefix(at(&of[0]), fmt.Sprintf(" at %.2f", of[0].Load))
		if plots[world] == nil {
			order = append(order, world)
			plots[world] = &[2]page.Plot{{Title: world, X: "load, of what the engines can serve", Y: "welfare a second"},
				{Title: world, X: "load, of what the engines can serve", Y: "p99 of first tokens, ms", LogY: true}}
		}
		for _, rule := range append([]string{virtual.MarketName}, names...) {
			mine := slices.DeleteFunc(slices.Clone(of), func(r virtual.Row) bool { return r.Rule != rule })
			if len(mine) == 0 {
				continue
			}
			best := slices.MaxFunc(mine, less)
			for k, name := range []string{"welfare", "p99"} {
				e := best.All[name]
				plots[world][k].Of(rule).Add(best.Load, e.Mean, e.Within)
			}
		}
	}
	b.WriteString("\n## By load\n\n" +
		"The market, and the rules that are best at some load, at the best value of their knobs.\n")
	for _, world := range order {
		for k := range 2 {
			name := fmt.Sprint(len(p.Plots) + 1)
			p.Plots[name] = plots[world][k]
			b.WriteString(page.Place(name))
		}
	}
}

func less(a, b virtual.Row) int {
	switch x, y := a.All["welfare"].Mean, b.All["welfare"].Mean; {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

const frontierTried = `
## What was tried instead

Each in place of the market's rule, on mtrag with four tempers: welfare against it at 1, 1.1 and 1.25 of
capacity, by ` + "`lab crowd`" + ` with five or ten seeds; two standard errors are about 1 %.

* **Tolls in full all along**, and not only where tasks of two clients were refused of late: 0 to +1 % more
  beyond capacity. But where nobody says terms 128 callers of 64 slots pay 4.7 times the card and not 1.1, for
  the same slots, and bills that nobody agreed to must be near the card. **Never in full**, as it was: 0.4,
  0.9, 2.0 % less on mixed and 0.3, 2.9, 3.9 % on two-speeds, with p99s of first tokens of 6.6 s and not 2.8
  (mixed at 1.1) and 6.1 s and not 2.1 (two-speeds), at bills of 3.0 and not 5.5, and 2.1 and not 3.9 times
  the card: who is refused would have paid that. Within 1, 4 and 16 s of a refusal in place of 10: the more
  the longer, by 1 % in all. On one refused client and not two: the same, and one client could charge all.
* **Waiting on while a slot costs more than the task would have of it**, as it was, and not being told once
  that has lasted for two seconds. Level on mtrag with four tempers, with longest waits of 15 s and not 10
  (mixed at 1.1, three seeds). On the worlds of [cliff](cliff.md), by five, before who waits alone was spared:
  -61 % (agents), -10 % (busy), -7 % (agents-1), -4 % (mooncake), -1 % (mooncake-4), level where caches are
  not short, with p99s of first tokens of 107 s and not 71 (agents), 134 and not 18 (mooncake), 133 and not 21
  (mooncake-4), 44 and not 14 (busy): long prompts of which nothing is cached waited for a minute or two, took
  a slot as a price fell for a moment, were then worth half, and pushed out what others come back to. On busy
  four tenths are told so, and not a fifteenth. After 1, 3 or 5 s: +18, -30 and -19 % on agents, within 8 %
  elsewhere, by two seeds. After a tenth of the time that it would wait on: -26 % of the old on agents.
* **A toll for those who run**: while a prompt is computed nobody else at that engine gets on, and that is
  priced only where slots are short. With what it costs them (for each what a second until the first token
  costs one of other clients' tasks, on the mean, beyond the least at any of the task's agents), by five seeds
  at .9 and 1.1: p99s of first tokens of 1.08 and not 1.20 s, 2.5 and not 3.1 (mixed), .58 and not .68, 2.0
  and not 2.2 (two-speeds), .52 and .49, 1.3 and not 3.4 (alike); +0, +.7, +1.9, +1.5, -.4 and +1.7 % of
  welfare; where nobody says terms 173 and not 216 ms (quac at .9), 580 and not 645 (mtrag); the smallest
  fleet of [gpus](gpus.md) on azure costs $51 an hour and not $67 (first seed). Of 73 worlds 29 were lost, and
  not 32. But bills of 3.3 and not 1.5 times the card, and 24 and not 14, on alike; -2 % on mooncake. And it
  can be played: who bids a thousand times the usual worth for one long answer has others wait beside free
  slots until it ends, at the price of its card; an idle agent at a hundred times the price takes the least
  away, and rivals' callers pay 42 % more; who names a model pays nothing of it. It waits for a measure of
  what a second costs that one client cannot move. By what a usual task costs, which nobody can, at twelve of
  these a second, it does as well with terms, but long prompts of who says none wait beside free slots.
* **How a price adds up where somebody waits beside a free slot.** It came to rest at what the wait costs, so
  on the mixed fleet where nobody says terms callers waited for cheap engines up to where a dearer one costs
  as much more: 4 and 8 s on the median at .9 and 1.1, beside 21 and 25 idle slots. Now it does not wane
  there, and rises by half of what one more slot would have added in a second, or of itself, up to the price
  at which the free slot is as good: +27 and +44 % of welfare, medians of .2 and 1.8 s, bills of 2.2 times
  the card as before. Where callers say terms 0 and -.1 % on mixed, 0 on two-speeds, -.1 % on alike (1.1),
  with p99s of first tokens of .9 and not 1.2 s, 1.7 and not 2.9, 1.5 and not 2.0, 2.1 and not 1.9; more on
  agents, by seeds far apart; -1 % on mooncake; elsewhere level. What follows was tried without the half of
  itself, which by itself is +2 and +4 %, and +14 and +10 % in runs of half a minute. Up to four times what
  one more slot would have added, and to what a second is worth to whoever wants it most, +22 and +32 %, but
  -.2 to -1.2 % with terms, and bills a fifth to a quarter more; twice as fast +2 and +3 % more, but -.4 and
  -1.2 % on mixed with terms; at once to where the free slot is as good +29 and +45 %, but -1.2, -.6 and -.7
  % on mtrag, rag and tau where agents are alike, -3 % on mooncake, and bills of 2.8 and not 1.0 times the
  card on quac; to where it is as good to the first who goes there, and not to the last, 0 and +13 %; without
  the time until the agent's first seat +25 and +33 %, and -5 % on mooncake; learned only where a task begins
  +25 and +40 %, but -55 % on agents and -1 % on two-speeds; a price that wanes by half in 4 s -1 to -4 %
  with terms; what a seat to come costs at the same agent left out of what one more slot adds there +17 and
  +31 %, and else level; no wish counted beyond 16 times the card a second -1 % on alike, with bills of 20
  and not 27 times the card, beyond 64 times level. Adding up without a bound lets a wish of a nano-credit
  keep a price of 100; wherever anybody waits, bills of 5.3 and not 1.3 times the card on chat-2. All by
  three seeds.
* **A task more on an engine than it runs at once, whatever terms say**, which waits in it for the next end.
  It is done where terms differ little, as where nobody says any: an engine forms its next step in the moment in
  which an answer ends, so a slot that a hub fills stands empty for a step, .6 % of an answer on mtrag and 2 %
  on quac. That gave +.4 to +2.9 % of welfare at 1.1 of capacity, and p99s of first tokens 10 to 20 % less at
  .9. Done always, with tempers bills of 1.3 and not 1.9, 2.2 and not 6.6 times the card (mixed at .9 and
  1.1), 1.2 and not 4.4 (two-speeds at 1.1), 7.8 and not 25 (alike), with p99s of 1.7 and not 2.9 s, 1.3 and
  not 2.2, 1.5 and not 2.4. But -.7, -3.0, -.8, -1.8, -.9 and -3.7 %: who is sent ahead holds a place that a
  dearer task wanted. Also where prompts take more than half of an engine's time: busy -33 %, agents -33 ± 50
  %, mooncake -2 %. Only where a slot's price is 0: +.1 and -.1 % at 1.1. Merely selling one slot more: -2.7
  to -3.6 % on mixed and two-speeds. Two ahead: less than one. All by three to six seeds.
* **A price that falls by half in 5 s or 20 s** where caches are short, in place of 1 s: +20 and -3 % on
  agents, +2 and -39 % on mooncake, by one seed. **What a prompt evicts charged** as if it were computed once
  more, where prompts take all of an engine's time: +14 % on agents, +7 % on mooncake, +3 % on busy; but where
  who is outpriced is told, -29, -7 and -4 %. **Ten tasks more than keep an engine busy**, not four: -80, -19
  and -18 %. Both by two seeds.
* **A lot among agents that are as good to a task**, as it was, and not the emptiest of them: welfare within
  0.3 %, but where nobody says terms some agents are full by chance, and who has text cached there waits
  beside others with room: at six tenths of capacity p99 of first tokens is 1.8 times two-block's on mtrag,
  and not 1.1, the longest waits on mtrag and rag 1.9 times, and not 1.0.
* **Seats to come counted for what such seats turn out to be worth** in the plan, and not in prices alone:
  -0.2, +0.3, +2.5 %. But the last to come is served first then: the longest wait is 13 times two-block's.
* **A price of a class** in place of each agent's: 0, 0, +1 %, and twice the welfare where slots are short all
  along (mooncake). But tasks wait for their own caches beside free slots: the longest wait is four times as
  long as in a line where nobody says terms.
* **The lesser want of two plans**, so that a task cancelled at once moves no price: -1.5, -1.1, -0.5 %, and
  one that stays for 60 ms moved it all the same. A want that grows in the first 0.1 s or 1 s that its task
  waits: -0.6, -0.4, -0.4 % and -2.8, -2.2, -3.1 %.
* **What is common left off by how far plans come true** (the share that is kept of seats to come): 0, 0, +0.3
  %, as little is lost of them even where many are refused. **A want that counts a seat to come without its
  toll**, with tolls in full: -2.6 % at capacity and -5.6 % at 1.25 on mixed, +1.3 and +1.8 % on two-speeds.
* **A stay with the prompts of others in it**, as it was until they were measured apart: who computes a prompt
  is charged for the slots that this keeps, so such seconds counted twice. Level on mixed and two-speeds;
  where caches are short -51 % (mooncake), -48 % (mooncake-4) and -63 % (busy) of the welfare. Where nobody
  says terms 128 callers on small engines had p99s of first tokens 1.15 times two-block's, and not 1.31, and
  bills of 1.22.
* **As many tasks on an engine as it has slots**, also where prompts take all of its time, so that what is
  given to it waits there: on the worlds of [cliff](cliff.md) mooncake 8.3 and not 13.3, mooncake-4 11.4 and
  not 14.2, busy 0.73 and not 1.0, agents -4.0 and not 6.8, where 52 s of the 66 s to a first token passed in
  the engine's own line; the other worlds within 5 %, and bills there 1.0 and not 1.2 to 1.3 times the card.
  Two, three or six more than keep the engine busy, in place of four: a fifth more or less on agents and
  chat-2, within noise elsewhere. What keeps an engine busy by the means of its class, and not by its own
  tasks: -14 % (mooncake), -9 % (mooncake-4), and an owner's late first tokens lower its rivals' seats. Tasks
  that run three times as long as usual not counted among those that keep it busy: -5 to -10 % (mooncake,
  agents-1). A stay of a tenth of the usual prompt at least, for those that run as well as for the task, so
  that a cached prompt makes no price that is dear: -8 % (mooncake). With tasks that the engine's own delay is
  added to, by the mean of the last ones: -15 % on mooncake. Where more run than keep it busy, ends by how
  many run and not by how many keep it busy: -4 % (mooncake), within noise elsewhere, by four seeds.
* **Sessions admitted by the blocks that they need**, and kept until they end or are silent for 30 s, with the
  market as it is among those that are in; on the worlds of [cliff](cliff.md), where the open sessions need
  more than the caches hold. Of 12 worlds it has more than the market in two (agents: 15.0 and not -1.8; busy:
  0.7 and not 0.3), as much in two, and less in eight, by 22 to 80 %: p99 of first tokens is 30 to 55 s in six
  of these, and not 0.2 to 3. In both that it wins, ` + "`capped`" + ` has more, which serves whoever comes
  first.
* **No text put on idle agents** (` + "`prewarm: {every: 0s}`" + `), where dialogues begin alike and callers
  share a cache group; three seeds of [crowd](crowd.md): -17 % (begin), -4 % (new), -24 to -28 % (tau), -2 to
  -5 % (long). On tau p99 is 1.8 s and not 0.3 to 0.4. So agents are given such texts, where money is there
  for it.
* **A premium as quoted, however short the answer is**, as it was: of two clients without terms, 40 and 2
  callers on 8 slots, the dearest tasks paid 3.4 to 3.6 times their card, all with some 8 tokens where 130
  were expected. It follows the cost now, and they pay what they were quoted: 1.6 times, over HTTP 1.8 to
  2.03. Who is forecast to be short is still quoted a slot of usual length: one in 4,200 was at 2.3.
* **A price that holds** until a slot comes free, for once, twice or four times that long: within 0.5 %. A
  mean over 0.5 s: within 0.5 %; over 2 s and 4 s: -0.6, -1.2, -2.1 % and -2.8, -4.4, -6.8 %.

### What was switched off, and what it cost

One part at a time, by three seeds (two worlds of tau by five, busy by six and agents by ten where a figure
stands): **crowd** is mtrag, quac, tau, rag and small at 0.9 and 1.1 of capacity, four tempers on mixed and
two-speeds, and 128 callers; **cliff** is agents, mooncake, busy and chat-2, where agents is too noisy to tell
less than a half by three. Level: welfare within its interval in each world, and 0.1 % apart on the mean of
those of crowd. The same: to the last digit, in all but one or two worlds.

| switched off | crowd | cliff | so |
|---|---|---|---|
| a stay by the task's own forecast | level | level | gone |
| an interval for each size of forecast | the same | the same | gone |
| fits that let a coefficient in again | the same | level | gone |
| answers counted with the prompts in a cache | level | level | gone |
| prompts shorter as their class's were | level | level | gone |
| prompts at the rate seen, not by the line | level | mooncake -29 ± 66 % | stays: p99 there 53 s for 19 |
| agents' word of prompts in hand | level | level | stays: forecasts a third worse on agents |
| prewarmed text counted as engines count | tau -0.8 ± 1.1, -1.1 ± 1.5 % | the same | stays: p99 766 for 646 ms |
| guessed tokens, by what engines find | tau -1.4 ± 0.7, -0.5 ± 0.4 % | the same | stays |
| answers expected in caches | mixed -0.4 ± 0.3, -0.8 ± 0.9 % | not played | stays |
| a task's place behind prompts begun with it | quac -0.5 ± 0.4 %, else level | not played | stays |
| an even share that is good enough | level | not played | stays: p99 on tau 1,028 for 755 ms |
| pairs of tokens, tokens in the cache | level | level | stays: long prompts are forecast by these |
| lengths by role; by session | level; level | level; not played | stays: bills are quoted by these |
| no end expected of what runs thrice as long | level | level | stays: what hangs ends nothing |
| batches of 16 tasks or 10 ms | level | level | stays: the paper's |
| a pause between rounds | level | not played | stays: it bounds what rounds compute |
| what an engine lost is forgotten | the same | the same | stays: no engine here loses any |
| deadlines by the median first token | the same | the same | stays: nobody here has one |
| intervals that follow how many came within | the same | the same | stays: .885 came within, for .900 |
| answers that are far off wait for one that is not | the same | the same | stays: a guard against lies |
| an agent that differs has a line of its own | level | level | stays: a guard against lies |
| engines that turn are noticed | the same | level | stays: none turns here |
| an agent's word that prompts are late | level | level | stays: forecasts a third worse on long |
| what a task keeps a slot for by itself, in prices | level | mooncake -2.4 ± 8.9 % | stays: p99 there 33 s for 23 |
| what a task keeps a slot for by itself, in seats | level | mooncake -56 ± 7 % | stays: it bounds seats |
| a slow agent is tried again | the same | the same | stays: no engine here turns |
| what is left of a prompt, by the last first token | level | busy -1.8 ± 2.0 % | stays: forecasts a tenth worse |
| tokens in the cache, in first tokens | level | agents +17 ± 15 % | stays: forecasts an eighth worse on agents |

## Other bars that are not reached

Asked, and where it stands (` + "`make lint`" + ` and ` + "`make bench`" + ` measure size and speed,
[bench.md](bench.md) has the history; ` + "`lab crowd`" + ` and ` + "`lab economics`" + ` the rest). What is
asked where nobody says terms holds: [crowd](crowd.md).

* **Welfare** at capacity and beyond, beside the best price that could have been posted: the first table says
  by how much it is short, and what was tried stands above. On the mixed fleet it is above every rule that
  posts no price by as much as was asked, but nobody told such a rule what to post. Two speeds at 1.1 of
  capacity: short of all rules.
* **In each temper** as much as under the best rule, less 2 %: the same table has the temper that does worst,
  beside the rule that is best in sum.
* **Lies over many rounds** gain 2 % at most, as far as intervals tell: the most is +4.9 +- 4.7 %, of the
  thrifty at a tenth too much who say that a second is twice as dear. It was 6 to 7 % while who is outpriced
  waited on. ` + "`market/doc.go`" + ` has the reason.
* **Bills** of two clients without terms, 40 and 2 callers on 8 slots, in virtual time: 1.0 and 1.3 to 1.4
  times the card on mtrag, no task above 1.9; of seeds 1 to 42 one task of 4,200 was at 2.3, and 2 were asked.
  On rag, where they wait 8.5 s and nothing is cached, the small one pays 2.1 to 2.4 times, and 1.5 were
  asked: it goes before 34 tasks that wait, and pays what that costs these. Over HTTP the dearest task was at
  1.8 to 2.03; that was before a slot cost all of its price where tasks are refused, and was not measured
  since.
* **The hub and its parts** have some 18,800 lines of Go, and 15,000 were asked. What were seven tolls is one
  rule; what is left are features, and none of them could go without a loss that a page shows: forecasts,
  caches, failover, settlement, the papers' own policies. A round reaches up to 780 functions, and 120 were
  asked: 15 of them are package hub's own, the rest are rooms, records and the solver.
* **A round of 512 waiting tasks** for 64 slots takes 65 to 80 searches of the reference loop, and 60 were
  asked; one of 2,048 some 250, and not 150. Half of it are estimates, ties and the prices without each
  client. A second solve for ties replaced by an order among equals gained 5 %; starting it from the first
  gained nothing.
* **A quote** on 1,000 agents takes 1.7 searches (1.41), a task alone 1.3 to 1.5 (1.17), a virtual hour of 16
  engines 300 to 470 s (60): without any round it would take 240.
`
