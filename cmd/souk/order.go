package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/regular"
	"souk/bus/tip"
	"souk/cmd/console"
	"souk/cmd/local"
)

// order holds the flags of what an operator says of an amount.
type order struct {
	tip.Order
	approval string // file
}

// orderFlags gives a command the flags --ref, --note and --approval.
func orderFlags(c *cobra.Command, ref string) *order {
	o := &order{}
	c.Flags().StringVar(&o.Ref, "ref", "", ref)
	c.Flags().StringVar(&o.Note, "note", "", "a line for the books")
	c.Flags().StringVar(&o.approval, "approval", "", "file for the signature of a second operator: where "+
		"there is none yet, the order is written there, and nothing moves")
	return o
}

const signedBelow = "-- a second operator signs what is above: souk approve FILE --\n"

const maxOrder = 1 << 16 // bytes of such a file

// errUnasked: the treasury was not asked, as a second operator is to sign first.
var errUnasked = errors.New("nothing has moved")

// command has the treasury do what an operator says, with the approval of a second one where there is one.
// A deposit, a payout and a move have an id, a client and, the last, to whom it goes.
func (o *order) command(ctx context.Context, link *local.Link, op string, q bus.FundsRequest) (bus.FundsReply,
	error) {
	say := o.Order
	q.Order = &say
	if o.approval != "" {
		say.By = link.Name
		id := q.ID
		if op == bus.OpRemit || op == bus.OpRefund || op == bus.OpDistribute {
			if id = ""; say.Ref == "" {
				return bus.FundsReply{}, fmt.Errorf("%w: --approval is good for one --ref: name one",
					errUnasked)
			}
		}
		text := string(say.Text(op, id, q.Hub, q.Client, q.To, q.Amount))
		var err error
		if say.Signature, q.Token, err = readApproval(o.approval, text); err != nil {
			return bus.FundsReply{}, err
		}
	}
	return link.Command(ctx, op, q)
}

// readApproval reads the signature of an order and who has made it. A file that is not there gets the order.
func readApproval(path, text string) (signature, token string, err error) {
	data, err := regular.ReadGiven(path, maxOrder)
	if errors.Is(err, fs.ErrNotExist) {
		if err = regular.Write(path, []byte(text+signedBelow)); err == nil {
			err = fmt.Errorf("%w: the order is in %s: have another operator sign it (souk approve %s), and "+
				"then give this command again", errUnasked, path, path)
		}
		return "", "", err
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", errUnasked, err)
	}
	said, by, ok := strings.Cut(string(data), signedBelow)
	switch {
	case !ok:
		return "", "", fmt.Errorf("%w: --approval %s is no order: name a file that is not there yet",
			errUnasked, path)
	case said != text:
		return "", "", fmt.Errorf("%w: --approval %s is of another order:\n%s\nand this one is\n%s",
			errUnasked, path, said, text)
	}
	for line := range strings.Lines(by) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "signature":
			signature = rest
		case "jwt":
			token = rest
		}
	}
	if signature == "" || token == "" {
		return "", "", fmt.Errorf("%w: no other operator has signed %s yet (souk approve %s)", errUnasked,
			path, path)
	}
	return signature, token, nil
}

func approveCommand(s *shared) *cobra.Command {
	c := &cobra.Command{
		Use:   "approve FILE",
		Short: "Sign what another operator wants to pay",
		Long: `Shows the order that another operator has written to FILE (--approval FILE of souk fund,
payout, remit, refund and distribute), and with --yes signs it there with your key. Nothing moves before the first
operator gives the command again. Where the treasury is told so (second_operator_above), it makes larger
amounts move only with two signatures, and its records keep the second one: ledger check judges it.

Your creds say who you are: --creds FILE, or your name by --as, whose creds the keys in --data make.`,
		Example: `  souk approve remit-17.order --as bob
  souk approve remit-17.order --creds bob.creds --yes`,
		Args: console.Takes(1, 1),
	}
	var as string
	var yes bool
	c.Flags().BoolVar(&yes, "yes", false, "sign it; without, it is only shown")
	c.Flags().StringVar(&as, "as", "", "name of the operator who signs")
	c.RunE = func(c *cobra.Command, args []string) error {
		data, err := regular.ReadGiven(args[0], maxOrder)
		if err != nil {
			return err
		}
		text, _, ok := strings.Cut(string(data), signedBelow)
		if !ok || !tip.IsOrder(text) {
			return fmt.Errorf("%s: this is no order: --approval writes one", args[0])
		}
		i, err := s.market().Identity(bus.RoleOperator, cmp.Or(as, local.Operator))
		if err != nil {
			return err
		}
		if strings.Contains(text, "\nby "+i.Name+"\n") {
			return fmt.Errorf("%s is of %s, too: another operator is to sign it (souk auth add operator "+
				"NAME)", args[0], i.Name)
		}
		if !yes {
			fmt.Fprintf(c.OutOrStdout(), "%s-- not signed: --yes signs it as %s --\n", text, i.Name)
			return nil
		}
		signature, err := i.Approve([]byte(text))
		if err != nil {
			return err
		}
		said := fmt.Sprintf("%s%ssecond %s\nsignature %s\njwt %s\n", text, signedBelow, i.Name, signature,
			i.JWT())
		if err := regular.Write(args[0], []byte(said)); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s%s has signed this in %s\n", text, i.Name, args[0])
		return nil
	}
	return c
}
