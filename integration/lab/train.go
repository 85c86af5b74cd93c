package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus/regular"
	"souk/classifier/model"
	"souk/integration/lab/train"
)

// defaultMerge is the door's default renaming of labels.
const defaultMerge = "government=general,cloud_support=general"

func trainCommand() *cobra.Command {
	var prompts, chat, out, statement, merge string
	p := train.DefaultParams
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Learn the classifier's model from labelled prompts, and write its weights and data statement",
		Long: "Learn the classifier's model from labelled prompts. Rows are lines of JSON with \"domain\", \"prompt\" " +
			"and, where there is one, \"system\";\n" +
			"gzip is recognised. Rows whose prompt's hash falls in the test part are never learned from. " +
			"The same files and flags give\n" +
			"the same weights, byte for byte, on one architecture. Takes about a minute, most of it for " +
			"the figures.",
		Example: "  lab train                    # in the repository: makes again what is shipped\n" +
			"  lab train --prompts mine.jsonl.gz --chat '' --out mine.weights --statement mine.md",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rename, err := train.ParseRename(merge)
			if err != nil {
				return fmt.Errorf("--merge: %w", err)
			}
			rows, err := readRows(prompts)
			if err != nil {
				return err
			}
			var chatRows []train.Row
			if chat != "" {
				if chatRows, err = readRows(chat); err != nil {
					return err
				}
			}
			weights, figures, err := train.Measure(rows, chatRows, rename, p)
			if err != nil {
				return err
			}
			var page bytes.Buffer
			figures.Write(&page)
			if err := os.WriteFile(out, weights, 0o644); err != nil {
				return err
			}
			cmd.OutOrStdout().Write(page.Bytes())
			if statement == "" {
				return nil
			}
			return putFigures(statement, page.Bytes())
		},
	}
	f := cmd.Flags()
	f.StringVar(&prompts, "prompts", "classifier/data/domain_prompts.jsonl.gz", "labelled prompts")
	f.StringVar(&chat, "chat", "classifier/data/chat_prompts.jsonl.gz",
		"labelled prompts with system prompts; '' for none")
	f.StringVar(&out, "out", "classifier/model/domain.weights", "weights to write")
	f.StringVar(&statement, "statement", "classifier/data/MODEL.md",
		"page whose figures to replace; '' for none")
	f.StringVar(&merge, "merge", defaultMerge, "labels counted as others in the merged figures")
	f.IntVar(&p.Epochs, "epochs", p.Epochs, "passes over the rows")
	f.Float64Var(&p.Rate, "rate", p.Rate, "Adagrad's step")
	f.Float64Var(&p.Decay, "decay", p.Decay, "weight decay")
	f.Float64Var(&p.Prior, "prior", p.Prior, "share of the naive Bayes log odds that weights start with")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "order of the rows")
	return cmd
}

// figuresMark divides a data statement: people write above it, `lab train` below.
const figuresMark = "<!-- figures: written by `lab train` -->\n"

func putFigures(path string, figures []byte) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	head, _, _ := strings.Cut(string(old), figuresMark)
	if head == "" {
		head = "# " + filepath.Base(path) + "\n\n"
	}
	return os.WriteFile(path, []byte(head+figuresMark+"\n"+string(figures)), 0o644)
}

func readRows(path string) ([]train.Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := train.Read(f)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("no rows")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func evalCommand() *cobra.Command {
	var weights, merge, part string
	var bar float64
	cmd := &cobra.Command{
		Use:   "eval FILE",
		Short: "Judge the classifier's model on labelled prompts: accuracy, macro-F1, confusion table",
		Long: "Judge the classifier's model on lines of JSON with \"domain\", \"prompt\" and, where there is one, " +
			"\"system\"; gzip is recognised.\n" +
			"On files that the model was trained with, --part test judges only the rows it has not learned " +
			"from.\n" +
			"Exit status 1 if macro-F1 is below --min-f1.",
		Example: "  lab eval --part test classifier/data/domain_prompts.jsonl.gz\n  lab eval " +
			"--merge '' other.jsonl",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rename, err := train.ParseRename(merge)
			if err != nil {
				return fmt.Errorf("--merge: %w", err)
			}
			m := model.Default()
			if weights != "" {
				data, err := regular.Read(weights, model.MostBytes)
				if err != nil {
					return err
				}
				if m, err = model.Decode(data); err != nil {
					return fmt.Errorf("%s: %w", weights, err)
				}
			}
			rows, err := readRows(args[0])
			if err != nil {
				return err
			}
			if rows, err = partOf(rows, part); err != nil {
				return err
			}
			all := train.Tally(train.Judge(m, rows, nil))
			merged := train.Tally(train.Judge(m, rows, rename))
			out := cmd.OutOrStdout()
			all.Write(out)
			fmt.Fprintf(out, "all labels: accuracy %.3f, macro-F1 %.3f over %d rows\n", all.Accuracy(),
				all.MacroF1(), all.Rows())
			if len(rename) > 0 {
				fmt.Fprintln(out)
				merged.Write(out)
				fmt.Fprintf(out, "merged (%s): accuracy %.3f, macro-F1 %.3f over %d rows\n", merge,
					merged.Accuracy(), merged.MacroF1(), merged.Rows())
			}
			if merged.MacroF1() < bar {
				return fmt.Errorf("macro-F1 %.3f: below the bar of %.3f", merged.MacroF1(), bar)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&weights, "model", "", "weights made by `lab train`; the shipped ones if not given")
	f.StringVar(&merge, "merge", defaultMerge, "labels counted as others; '' for none")
	f.StringVar(&part, "part", "all", "rows to judge: all, test (held out of the shipped model) or training")
	f.Float64Var(&bar, "min-f1", 0, "fail if the merged macro-F1 is below")
	return cmd
}

func partOf(rows []train.Row, part string) ([]train.Row, error) {
	training, test := train.Split(rows)
	switch part {
	case "all":
		return rows, nil
	case "test":
		rows = test
	case "training":
		rows = training
	default:
		return nil, fmt.Errorf("--part: %q is not all, test or training", part)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("--part %s: no row of the file is in it", part)
	}
	return rows, nil
}
