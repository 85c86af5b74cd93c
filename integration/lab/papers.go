package main

import (
	"io"

	"github.com/spf13/cobra"

	"souk/integration/lab/papers"
)

func papersCommand() *cobra.Command {
	pages, out := "integration/results", output{}
	c := &cobra.Command{
		Use:   "papers",
		Short: "List every router, table and figure of the three papers, theirs beside ours",
		Long: `Reads the pages of results and lists every router, table and figure of the three papers: the command that
makes it again, theirs beside ours, whether the claim held, and why two figures cannot be compared. It is made anew
whenever a page is written into its directory.`,
		Example: "  lab experiment papers --out integration/results",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if out.dir != "" {
				return beside(out.dir)
			}
			p, err := papers.Page(pages)
			if err == nil {
				_, err = io.WriteString(c.OutOrStdout(), p.Markdown())
			}
			return err
		},
	}
	c.Flags().StringVar(&pages, "pages", pages, "directory of the pages, where the page is printed")
	out.flag(c.Flags(), "papers")
	return c
}

// beside makes anew the pages that are made of the others in a directory: that of papers, and the front page.
func beside(dir string) error {
	p, err := papers.Page(dir)
	if err == nil {
		err = p.Write(dir)
	}
	if err != nil {
		return err
	}
	return front(dir)
}
