package virtual

// GMTRouter (Xie et al. 2025, arXiv 2511.08590; github.com/ulab-uiuc/GMTRouter, commit 74e82fa): the model
// whose answer the user is expected to rate best. Who a user is, is known here by the question alone: see
// package learned.

func init() {
	addLearned("gmt", "learned: the best rated, from what users like the caller asked before",
		"GMTRouter, commit 74e82fa", "", nil, highest)
}
