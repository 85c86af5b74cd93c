package virtual

// RouterDC (Chen et al., NeurIPS 2024; github.com/shuhao02/RouterDC, commit 0b8fd02): the model whose
// vector is most like the question's.

func init() {
	addLearned("dual-contrastive", "learned: the model most like the question, by two contrasts",
		"RouterDC, commit 0b8fd02", "", nil, highest)
}
