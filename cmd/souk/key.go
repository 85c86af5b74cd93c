package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/market"
)

// keyCommand makes, lists and takes away the keys with which clients come over HTTP.
func keyCommand(s *shared) *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Keys with which clients come over HTTP",
		Long: `A key lets its holder spend one client's money through a gateway, as to any server of OpenAI's
API. The registry knows no more of it than a hash: it is shown once, when it is made. Gateways see every change
within a second; a key that is revoked ends the answers that it has in hand.`,
	}
	var reg registry
	reg.flags(c.PersistentFlags())
	with := func(c *cobra.Command, do func(ctx context.Context, r bus.Registry) error) error {
		r, err := reg.dial(c, s.data, bus.KeysPrefix)
		if err != nil {
			return err
		}
		defer r.Close()
		ctx, cancel := context.WithTimeout(c.Context(), registryWithin)
		defer cancel()
		return do(ctx, r)
	}
	// only a budget needs the treasury
	reach := func() (*local.Link, error) { return s.dial(bus.RoleOperator, local.Operator) }
	bank := func(ctx context.Context, of, client, every string, amount market.Credits) error {
		link, err := reach()
		if err != nil {
			return err
		}
		defer link.Close()
		return link.Budget(ctx, of, client, every, amount)
	}
	mayJoin := func(client, group string) error {
		switch group {
		case "":
			return errors.New("cache group: the name is empty: write one; without a group a client has a cache of its own")
		case client:
			return fmt.Errorf("cache group %s: that is the client's own name, and its own cache needs none: "+
				"choose another name for one that several share", group)
		}
		return s.market().MayBeGroup(group)
	}
	makes := newKey(with, reach, mayJoin, func(c *cobra.Command, k *bus.APIKey) {
		var link *local.Link
		// else of which market hubs and treasury are is not said
		if len(reg.etcd) == 0 || s.nats != "" || reg.found {
			link, _ = reach()
		}
		if link == nil {
			tellBill(c.ErrOrStderr(), k, nil)
			fmt.Fprintf(c.ErrOrStderr(), "tasks of a client without money are refused: souk balance %s says what it "+
				"has, souk fund %s AMOUNT pays in\n", k.Client, k.Client)
			return
		}
		defer link.Close()
		tellBill(c.ErrOrStderr(), k, link.Cards(c.Context()))
		tellPoor(c.Context(), c.ErrOrStderr(), link, k.Client)
	})
	makes.PreRunE = s.mayBeClient
	c.AddCommand(s.reach(makes), listKeys(with), rotateKey(with), s.reach(revokeKey(with, bank)),
		groupKeys(with, mayJoin))
	return c
}

type withRegistry func(*cobra.Command, func(context.Context, bus.Registry) error) error

// newKey makes keys. look is called of one that was made, where it has no budget.
func newKey(with withRegistry, reach func() (*local.Link, error), mayJoin func(client, group string) error,
	look func(*cobra.Command, *bus.APIKey)) *cobra.Command {
	var k bus.APIKey
	var file, budget, every, group string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "new CLIENT",
		Short: "Make a key of a client, and show it once",
		Long: `Makes a key of a client, and shows it once.

With --budget the key is a client of its own, CLIENT-ID, that spends at most so much of CLIENT's money, over
all gateways and hubs. With --every day, week or month its money is filled up to the budget at the beginning
of each (midnight UTC; weeks begin on Mondays); what it has left stays and counts. Where CLIENT lacks the
money, the key gets what there is, and what is missing in the same period, once there is more. Without --every
the budget is filled once. When the key is revoked, what is left goes back to CLIENT; a key that expires keeps
its money until then. Of a request a hub sets aside what it may cost at most, often some cents, and gives back
what it did not cost: where the key has less, that is all that it has, and others come again meanwhile.

What engines hold of prompts is kept apart by cache group, and so is what is expected of it: each client finds
its own texts there, and nobody else's. Each key with a budget is a client, and so has a cache of its own, too.
A request of the key may cost at most --max-price, whatever it says: a bound for what runs away, far above what
one without terms comes to, which is near the price card. With --max-price 0 there is none.

With --cache-group the client that the key is of, CLIENT or CLIENT-ID, shares one with all others of that
group, with whatever keys or creds it comes: several that begin their prompts alike pay less, and wait less. It
also gives something away: a member can find out, by what a text costs, by how soon its answer begins, or by
quotes, which cost nothing, whether another member has sent a text that begins like one that it guesses. So
join only those who may know each other's prompts. ` + "`souk key group`" + ` moves a client later, or takes it out.`,
		Example: `  souk key new alice
  souk key new alice --budget 5 --every month
  souk key new alice --budget 5 --cache-group alice-and-co
  souk key new alice --models gpt-oss-20b --max-price 0.01 --rate 5 --expires 2160h --file alice.key`,
		Args: console.Takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			k.Client = args[0]
			f := c.Flags()
			switch {
			case strings.HasPrefix(k.Client, bus.ProberOf("")):
				return fmt.Errorf("client %q is a hub's own, which pays for what the hub puts on engines of "+
					"others' prompts: give another name", k.Client)
			case f.Changed("models") && len(k.Models) == 0:
				return errors.New("--models: names none: leave it out, and the key may ask for all")
			case slices.ContainsFunc(k.Models, func(m string) bool { return strings.TrimSpace(m) == "" }):
				return fmt.Errorf("--models: one has no name in %q: write them as a,b", k.Models)
			case f.Changed("every") && every == "":
				return errors.New("--every: write day, week or month, or leave it out")
			case f.Changed("budget"):
				amount, err := amountOf("--budget", "budget", budget)
				if err != nil {
					return err
				}
				k.Budget = &bus.KeyBudget{Of: k.Client, Amount: amount, Every: every}
			case every != "":
				return fmt.Errorf("--every: there is no --budget to fill up every %s", every)
			}
			switch {
			case f.Changed("expires") && expires <= 0:
				return fmt.Errorf("--expires: %v is over already: leave it out, and the key is good until it "+
					"is revoked", expires)
			case f.Changed("expires") && expires < time.Second:
				return fmt.Errorf("--expires: %v is over before anybody can use the key: give it a second or more",
					expires)
			case f.Changed("rate") && k.Rate == 0:
				return errors.New("--rate: 0 requests a second are none: leave it out, and the gateway's " +
					"limit is all")
			case !f.Changed("max-price"):
				most := local.KeyMaxPrice
				if worth := k.Terms.Worth; worth != nil {
					most = max(most, *worth)
				}
				k.MaxPrice = &most
			case *k.MaxPrice == 0:
				k.MaxPrice = nil
			}
			if f.Changed("open") && k.Open == 0 {
				return errors.New("--open: 0 answers are none: leave it out, and the gateway's limit is all")
			}
			if err := mayWrite(file, ""); err != nil {
				return err
			}
			if expires != 0 {
				k.ExpiresMS = time.Now().Add(expires).UnixMilli()
			}
			if f.Changed("cache-group") {
				if err := mayJoin(k.Client, group); err != nil {
					return err
				}
			}
			return with(c, func(ctx context.Context, r bus.Registry) error {
				if k.Budget == nil {
					secret, err := local.NewKeyIn(ctx, r, nil, k, group)
					if err != nil {
						return err
					}
					if err := giveAway(c, file, secret); err != nil {
						return err
					}
					look(c, &k)
					tellGroup(ctx, c.ErrOrStderr(), r, k.Client)
					return nil
				}
				link, err := reach() // before anything is written
				if err != nil {
					return fmt.Errorf("no key is made: the treasury, which sets its budget, is not reached: %w",
						err)
				}
				defer link.Close()
				secret, err := local.NewKeyIn(ctx, r, link.Budget, k, group)
				if err != nil {
					return firstDeposit(err, k.Client)
				}
				if err := giveAway(c, file, secret); err != nil {
					return err
				}
				tellBill(c.ErrOrStderr(), &k, link.Cards(ctx))
				tellFilled(ctx, c.ErrOrStderr(), link, k.Budget, bus.BudgetClient(k.Client, idOf(secret)))
				return nil
			})
		},
	}
	f := c.Flags()
	f.StringSliceVar(&k.Models, "models", nil, "models that it may ask for, auto among them; default: all")
	f.StringVar(&budget, "budget", "", "credits of the client that it may spend; default: all that there are")
	f.StringVar(&group, "cache-group", "",
		"name of the cache group that its client shares with others; default: the one it is in, or a cache "+
			"of its own")
	f.StringVar(&every, "every", "", "fill the budget up every day, week or month; default: once")
	given(f, &k.MaxPrice, market.ParseCredits, "max-price",
		"`credits` that a request may cost at most, whatever it says; 0: no bound; default: "+
			local.KeyMaxPrice.String()+", or its worth if that is more")
	termsFlags(f, &k.Terms, ", where a request does not say")
	f.Float64Var(&k.Rate, "rate", 0, "requests a second; default: as many as a gateway takes")
	f.IntVar(&k.Open, "open", 0, "answers at once; default: as many as a gateway gives a key")
	f.DurationVar(&expires, "expires", 0, "how long it is good, as 2160h; default: until it is revoked")
	f.StringVar(&file, "file", "", "write it there, for its owner's eyes alone, and show the path")
	return c
}

// usualTask is the task by which a key's bill is explained: a page of prompt, and half a page of answer.
var usualTask = market.Usage{Prompt: 1000, Output: 300}

// tellBill says what a task of a key costs as a rule, and at most: in money by the cards of the agents that
// serve its models, where hubs say these.
func tellBill(w io.Writer, k *bus.APIKey, cards map[string]bus.Cards) {
	least, most := market.MaxCredits, market.Credits(0)
	for model, c := range cards {
		if len(k.Models) == 0 || slices.Contains(k.Models, model) || slices.Contains(k.Models, "auto") {
			least, most = min(least, c.Least.Cost(usualTask)), max(most, c.Most.Cost(usualTask))
		}
	}
	rule := "as much as the price card of the agent that serves it says"
	if most > 0 {
		rule = fmt.Sprintf("%s credits, where it has %d tokens and an answer of %d, nothing of it in a cache",
			fromTo(least, most), usualTask.Prompt, usualTask.Output)
	}
	crowded := "what others lose by it: by default 6 % of a usual task a second, and more where some are refused"
	if k.Terms.Worth != nil {
		crowded = "what others would pay for its slot, never more than the " + k.Terms.Worth.String() +
			" credits that it is worth"
	}
	bound := "as much as its max_tokens cost: it has no max_price"
	if k.MaxPrice != nil {
		bound = k.MaxPrice.String() + " credits, whatever it says (--max-price)"
	}
	fmt.Fprintf(w, "a task of this key costs, as a rule, %s; where slots are short also %s; at most %s; "+
		"`souk quote` says it of one task\n", rule, crowded, bound)
}

// fromTo says a range of amounts.
func fromTo(least, most market.Credits) string {
	if least == most {
		return least.String()
	}
	return least.String() + " to " + most.String()
}

// tellGroup says of a client that shares its cache that it does, whichever key it shows: with a key of its
// own nobody expects that, least of all where the client was put into the group long ago.
func tellGroup(ctx context.Context, w io.Writer, r bus.Registry, client string) {
	of, err := local.Groups(ctx, r)
	if group := of[client]; err == nil && group != "" {
		fmt.Fprintf(w, "client %s shares its cache with cache group %s, whatever key or creds it shows; "+
			"`souk key group %s --own` ends that\n", client, group, client)
	}
}

// tellPoor says of a client that has no money how it gets some, where the treasury and hubs answer: a key is
// good without.
func tellPoor(ctx context.Context, w io.Writer, link *local.Link, client string) {
	r, err := link.Holdings(ctx, client)
	has, unasked := r.Prepaid, r.Allotted
	for _, h := range r.Hubs {
		if h.AtMS > 0 {
			has, unasked = has+h.Avail+h.Held, unasked-h.Allotted
		}
	}
	if err == nil && has+unasked == 0 || bus.CodeOf(err) == bus.CodeUnknownClient {
		fmt.Fprintf(w, "%s has no money, and its tasks are refused: souk fund %s AMOUNT\n", client, client)
	}
}

// tellFilled says how much of its budget a new key has, where that is not all of it.
func tellFilled(ctx context.Context, w io.Writer, link *local.Link, b *bus.KeyBudget, client string) {
	r, err := link.Balance(ctx, client)
	if has := r.Prepaid + r.Allotted; err == nil && has < b.Amount {
		fmt.Fprintf(w, "it has %v of its %v now; the rest follows as soon as %s has it (souk balance %s)\n",
			has, b.Amount, b.Of, client)
	}
}

// mayWrite refuses a file that is there, unless it has the secret before of the key of that id: a key is
// shown once, so it may be the only place where another one is.
func mayWrite(file, id string) error {
	if _, err := os.Lstat(file); file == "" || err != nil {
		return nil
	}
	if secret, err := local.ReadKey(file); err == nil && id != "" && idOf(secret) == id {
		return nil
	}
	return fmt.Errorf("--file: %s: there is such a file, perhaps of another key: name another, or move it "+
		"away", file)
}

// giveAway shows a key once: to stdout, or into a file whose path is shown.
func giveAway(c *cobra.Command, file, secret string) error {
	if file == "" {
		_, err := fmt.Fprintln(c.OutOrStdout(), secret)
		return lost(err, secret)
	}
	if err := local.WriteKey(file, secret); err != nil {
		return lost(err, secret)
	}
	fmt.Fprintf(c.OutOrStdout(), "key %s is in %s\n", idOf(secret), file)
	return nil
}

// lost says of a key that could not be shown that nobody will ever know it.
func lost(err error, secret string) error {
	if err != nil {
		err = fmt.Errorf("the key is made, and lost: %w; revoke %s, and make another", err, idOf(secret))
	}
	return err
}

// takesKeyID wants the id of a key. Who gives the key itself hears what its id is.
func takesKeyID(c *cobra.Command, args []string) error {
	if err := console.Takes(1, 1)(c, args); err != nil {
		return err
	}
	if rest, is := strings.CutPrefix(args[0], bus.KeyPrefix); is {
		id, _, _ := strings.Cut(rest, "-")
		return fmt.Errorf("this is a key, a secret that belongs in no command line, and its id is %s: write %s",
			id, c.UseLine())
	}
	return nil
}

func idOf(secret string) string {
	id, _ := bus.KeyID(secret)
	return id
}
