package virtual

// What every router offers.

func init() {
	atOnce("random", "any engine", "", func(c *choice, _ *Request, v *View) int {
		able := v.Able()
		return able[c.random.IntN(len(able))]
	})
	atOnce("round-robin", "one after the other", "", func(c *choice, r *Request, v *View) int {
		i := c.last
		for range v.Engines {
			if i = (i + 1) % len(v.Engines); v.Fits(i, r) {
				break
			}
		}
		return i
	})
	atOnce("least-loaded", "fewest requests in flight", "",
		func(c *choice, _ *Request, v *View) int { return c.Least(v.Able(), v.Load) })
	atOnce("power-of-two", "the less loaded of two drawn by lot", "Mitzenmacher 2001",
		func(c *choice, _ *Request, v *View) int {
			able := v.Able()
			var two []int
			for _, i := range c.random.Perm(len(able))[:min(2, len(able))] {
				two = append(two, able[i])
			}
			return c.Least(two, v.Load)
		})
	atOnce("sticky", "a session stays where it was first; a new one goes to the least loaded", "",
		func(c *choice, r *Request, v *View) int {
			if i, ok := c.home[r.Play]; !ok || !v.Fits(i, r) {
				c.home[r.Play] = c.Least(v.Able(), v.Load)
			}
			return c.home[r.Play]
		})
}
