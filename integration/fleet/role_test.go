package fleet

// roleEnv makes the test binary a part of a fleet instead: a product's part with one port wrapped.
const roleEnv = "SOUK_FLEET_ROLE"

func play(role string) int { return 2 }
