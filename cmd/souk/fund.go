package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/market"
)

func fundCommand(s *shared) *cobra.Command {
	within := local.FundWithin
	c := &cobra.Command{
		PreRunE: s.mayBeClient,
		Use:     "fund CLIENT AMOUNT",
		Short:   "Deposit credits for a client at the treasury",
		Long: `Deposits credits for a client, who exists from then on. One credit stands for one US dollar of
the price rows.

With --id the deposit is made once however often the command is repeated; without, the id is printed, so that
a deposit whose answer was lost can be asked for again. --ref and --note stand in the records, beside the name
of the operator, that of the creds.`,
		Example: `  souk fund alice 2.50
  souk fund alice 2.50 --ref SEPA-4711 --note "invoice 17"
  souk fund alice 2.50 --nats nats://127.0.0.1:4222`,
	}
	s.amountCommand("deposit", c, s.ordering(c, &within), func(ctx context.Context, link *local.Link,
		o *order, client string, amount market.Credits, id string) error {
		reply, err := o.command(ctx, link, bus.OpDeposit, bus.FundsRequest{ID: id, Client: client,
			Amount: amount})
		if err != nil {
			return mayBeMade(err, fmt.Sprintf("souk fund %s %s --id %s", client, amount, id))
		}
		fmt.Fprintf(c.OutOrStdout(),
			"deposited %s for %s: %s at the treasury, %s allotted to hubs (deposit %s)\n",
			amount, client, reply.Prepaid, reply.Allotted, id)
		path, err := s.market().ClientCreds(client)
		switch {
		case err != nil:
			fmt.Fprintf(c.ErrOrStderr(), "souk: no creds for %s: %v\n", client, err)
		case path != "":
			fmt.Fprintf(c.OutOrStdout(), "creds of %s: %s\n", client, path)
		}
		return nil
	})
	return c
}

// mayBeMade adds to an error after which nobody knows whether money has moved how to find out. A refusal of
// the treasury is returned as it is, unless it says to come back.
func mayBeMade(err error, again string) error {
	var refused *bus.Error
	isRefused := errors.As(err, &refused) && refused.Code != bus.CodeAllotmentPending &&
		refused.Code != bus.CodeUnavailable
	switch {
	case errors.Is(err, errUnasked):
		return err
	case errors.Is(err, local.ErrUnmade):
		return fmt.Errorf("%w; nothing was made: free some space there, and ask again", err)
	case isRefused, errors.Is(err, bus.ErrNoResponders):
		return err
	}
	return fmt.Errorf("%w: whether it was made is not known; to make it once, or hear that it was: %s", err,
		again)
}

// mayBeClient refuses a command whose first argument cannot be a client's name.
func (s *shared) mayBeClient(_ *cobra.Command, args []string) error {
	return s.market().MayBeClient(args[0])
}

// amountCommand has a command move an amount for a client, once under one id; noun says what it makes.
func (s *shared) amountCommand(noun string, c *cobra.Command, ask ordering, do func(ctx context.Context,
	link *local.Link, o *order, client string, amount market.Credits, id string) error) {
	var id string
	o := orderFlags(c, "reference of the bank or of an invoice, for the books; only --id has it made once")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if _, amount, found := strings.Cut(err.Error(), " flag: "); found {
			_, amount, _ = strings.Cut(amount, " in ")
			if _, no := market.ParseCredits(amount); no == nil { // -5 is read as the flag of a 5
				_, err := amountOf("amount", noun, amount)
				return err
			}
		}
		return console.FlagError(c, err)
	})
	c.Args = console.Takes(2, 2)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := bus.CheckID("client", args[0]); err != nil {
			return err
		}
		amount, err := amountOf("amount", noun, args[1])
		if err != nil {
			return err
		}
		if id == "" && o.approval != "" { // the same when it is signed
			id = c.Name() + "-" + strings.TrimSuffix(filepath.Base(o.approval), filepath.Ext(o.approval))
		}
		if id == "" {
			id = fmt.Sprintf("%s-%x", c.Name(), time.Now().UnixNano())
		}
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		return do(ctx, link, o, args[0], amount, id)
	}
	c.Flags().StringVar(&id, "id", "", "id of the "+noun+", to make it once")
}

// amountOf reads an amount of credits that moves; where says which argument it is, noun what it makes.
func amountOf(where, noun, text string) (market.Credits, error) {
	amount, err := market.ParseCredits(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", where, err)
	case amount <= 0:
		hint := ""
		if noun == "deposit" && amount < 0 {
			hint = "; `souk payout CLIENT AMOUNT` pays credits out"
		}
		return 0, fmt.Errorf("%s: %s: a %s is above 0%s", where, amount, noun, hint)
	}
	return amount, nil
}

// ordering is how an operator speaks to the treasury, until end and within some time.
type ordering func() (ctx context.Context, link *local.Link, end func(), err error)

// waiting gives a command that waits for hubs the flag --wait.
func (s *shared) waiting(c *cobra.Command, what string) ordering {
	wait := 30 * time.Second
	c.Flags().DurationVar(&wait, "wait", wait, "how long to wait for "+what)
	c.PreRunE = func(*cobra.Command, []string) error {
		if wait <= 0 {
			return fmt.Errorf("--wait: %v is not above 0", wait)
		}
		return nil
	}
	return s.ordering(c, &wait)
}

func (s *shared) ordering(c *cobra.Command, within *time.Duration) ordering {
	return func() (context.Context, *local.Link, func(), error) {
		link, err := s.dial(bus.RoleOperator, local.Operator)
		if err != nil {
			return nil, nil, nil, err
		}
		ctx, cancel := context.WithTimeout(c.Context(), *within)
		return ctx, link, func() { cancel(); link.Close() }, nil
	}
}
