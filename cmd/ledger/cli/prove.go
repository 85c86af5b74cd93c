package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"souk/bus/regular"
	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/inspect"
	"souk/ledger/journal"
)

func (e *env) proveCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "prove RECEIPT|CLIENT/TASK -o FILE [PATH...]",
		Short: "A proof of what came of a task, in one file that needs no journal",
		Long: `prove writes a file that shows what came of a task, or any other record, to somebody who has no
journal: the record, the hashes that lead from it to the root of its journal's Merkle tree, and the
checkpoint of that root, signed by the journal's writer and cosigned by witnesses (C2SP tlog-proof).
RECEIPT is JOURNAL/ROUND/SLOT, or a record's own id with --journal. Of CLIENT/TASK it is the end that was
paid, or else the last. ledger verify judges the file, and so does deploy/verify.py without any program of ours.

A record is covered a second after it was written, and cosigned some seconds later.`,
		Example: `  ledger prove math/17/0 -o mine.tlog-proof
  ledger prove dev/task-1 -o mine.tlog-proof
  ledger prove deposit/invoice-17 --journal treasury -o deposit.tlog-proof`,
		Args: console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return errors.New("no file for the proof: name it by -o")
			}
			if name, _, _, ok := ledger.ParseHoldID(args[0]); ok && e.journal == "" {
				e.journal = name
			}
			sources, err := e.open(args[1:])
			if err != nil {
				return err
			}
			id := args[0]
			if _, _, _, ok := ledger.ParseHoldID(id); !ok {
				of, receipt, err := inspect.Receipt(cmd.Context(), sources, id)
				if err != nil {
					return err
				}
				if receipt != "" {
					sources, id = []*inspect.Source{of}, receipt
				}
			}
			if len(sources) != 1 {
				return fmt.Errorf("%q is no receipt and no task that has ended, and there are %d journals: choose one "+
					"with --journal", id, len(sources))
			}
			p, err := inspect.Prove(sources[0].Dir, id)
			if err != nil {
				return err
			}
			data, err := p.Marshal()
			if err != nil {
				return fmt.Errorf("%w; prove the hold's end instead, by its receipt, or keep a copy of the journal", err)
			}
			if err := write(to, data); err != nil {
				return err
			}
			covered, err := checkpoint.Peek(p.Note)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: record %d of %s, %d bytes, by a checkpoint of size %d with %d "+
				"signatures\n", to, p.Index, covered.Origin, len(data), covered.Size,
				checkpoint.Signatures(p.Note))
			return err
		},
	}
	c.Flags().StringVarP(&to, "out", "o", "", "file of the proof, *.tlog-proof as a rule")
	return c
}

// write makes a file, where none is yet.
func write(path string, data []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	return regular.Write(path, data)
}

func (e *env) verifyCommand() *cobra.Command {
	var policies []string
	c := &cobra.Command{
		Use:   "verify FILE... --policy POLICY",
		Short: "Judge proofs by a policy, with nothing else, and say what they prove",
		Long: `verify judges files that ledger prove wrote, and says in words what each proves: that its record is
in the journal of the writer who signed its checkpoint, and that as many witnesses as the policy asks for
have cosigned that, so nobody is shown another past. It needs no journal, network or key. The policy
(C2SP tlog-policy) says whose signatures count: have it from somebody you trust, and not together with
the proof. souk auth writes that of a market.

Exit: 0 proven, 1 not proven (too few have signed, or others than the policy names), 2 usage or no proof at
all, 3 false: a signature or the record is not what it claims to be.`,
		Example: `  ledger verify mine.tlog-proof --policy policy`,
		Args:    console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(policies) == 0 {
				return errors.New("no policy: name it by --policy")
			}
			all, err := readPolicies(policies)
			if err != nil {
				return err
			}
			out := newPrinter(cmd.OutOrStdout(), e.output, "")
			for _, path := range args {
				if err := verify(out, path, all); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			out.end()
			return nil
		},
	}
	policyFlag(c, &policies)
	return c
}

func policyFlag(c *cobra.Command, to *[]string) {
	c.Flags().StringArrayVar(to, "policy", nil,
		"file that says whose checkpoints count, cosigned by how many of whom; again for more journals")
}

func readPolicies(paths []string) (all []*checkpoint.Policy, err error) {
	for _, path := range paths {
		data, err := regular.ReadGiven(path, checkpoint.MaxPolicy)
		if err != nil {
			return nil, err
		}
		p, err := checkpoint.ParsePolicy(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// verify judges a proof by the policy that names its journal, or else by the first one.
func verify(out *printer, path string, by []*checkpoint.Policy) error {
	data, err := regular.ReadGiven(path, checkpoint.MaxProof)
	if err != nil {
		return err
	}
	p, err := checkpoint.ParseProof(data)
	if err != nil {
		return err
	}
	c, err := checkpoint.Peek(p.Note)
	if err != nil {
		return err
	}
	v, err := p.Judge(inspect.PolicyOf(by, c.Origin))
	if err != nil {
		return err
	}
	f, err := ledger.DecodeFrame(p.Record)
	if err != nil || len(f.Records) != 1 {
		return fmt.Errorf("%w: record %d of %s is proven, and this release of ledger cannot read it: %w",
			checkpoint.ErrMalformed, p.Index, c.Origin, err)
	}
	if out.print(c.Origin, &f, &f.Records[0], nil); out.format == "table" {
		fmt.Fprintf(out.w, "    ; proven: record %d, by the %s\n", p.Index, &v)
	}
	return nil
}

// notes reads checkpoints that are kept elsewhere.
func notes(paths []string) (all []inspect.Note, err error) {
	for _, path := range paths {
		data, err := regular.ReadGiven(path, checkpoint.MaxProof)
		if err != nil {
			return nil, err
		}
		if p, err := checkpoint.ParseProof(data); err == nil { // it has one
			data = p.Note
		}
		all = append(all, inspect.Note{Name: path, Data: bytes.Clone(data)})
	}
	return all, nil
}

// codeOfError is the exit code for what a command could not do because of what it found.
func codeOfError(err error) (code int, ok bool) {
	switch {
	case errors.Is(err, journal.ErrDamaged), errors.Is(err, journal.ErrOther), errors.Is(err,
		checkpoint.ErrFalse):
		return ExitDamaged, true
	case errors.Is(err, checkpoint.ErrUnproven):
		return ExitViolations, true
	case errors.Is(err, inspect.ErrNotCovered):
		return ExitUndecided, true
	}
	return 0, false
}
