package bus

import (
	"strings"
	"time"
)

// Keys in the registry. Values are JSON.
const (
	AgentsPrefix   = "/souk/v1/agents/"   // <agent>: Registration, on agentd's lease
	ClaimsPrefix   = "/souk/v1/claims/"   // <agent>: Claim, on the hub's lease
	HubsPrefix     = "/souk/v1/hubs/"     // <domain>: HubEntry, by election
	LedPrefix      = "/souk/v1/led/"      // <journal>: HubEntry of a hub that leads, or did within LedFor
	MarketPrefix   = "/souk/v1/market/"   // <domain>: MarketConfig
	KeysPrefix     = "/souk/v1/keys/"     // <id>: APIKey
	GroupsPrefix   = "/souk/v1/groups/"   // <client>: CacheGroup, where it shares one
	PrefixKeysKey  = "/souk/v1/prefixes"  // PrefixKeys, which doors alone know
	VouchPrefix    = "/souk/v1/vouch/"    // <door>: VouchKeys, which that door and the treasury alone know
	TreasuryKey    = "/souk/v1/treasury"  // TreasuryEntry, by election
	TreasuryLedKey = "/souk/v1/ledby"     // TreasuryEntry of who led, and worked, last; it stays
	DoorsPrefix    = "/souk/v1/doors/"    // <id>: the process that is the only door of that id, on its lease
	GatewaysPrefix = "/souk/v1/gateways/" // <id>: likewise of gateways
	RevokedPrefix  = "/souk/v1/revoked/"  // <public key of creds>: until when they are void; root's alone
)

// A hub that leads a domain writes its key below LedPrefix before it takes a task, and each LedEvery after
// that. The key stays for LedFor after the last write: so a door that starts after the hub has left knows
// that a hub may have tasks and cannot be asked.
const (
	LedFor   = 9 * time.Minute
	LedEvery = time.Minute
)

func AgentKey(agent string) string   { return AgentsPrefix + agent }
func ClaimKey(agent string) string   { return ClaimsPrefix + agent }
func HubKey(domain string) string    { return HubsPrefix + domain }
func LedKey(journal string) string   { return LedPrefix + journal }
func MarketKey(domain string) string { return MarketPrefix + domain }
func DoorKey(id string) string       { return DoorsPrefix + id }
func GatewayKey(id string) string    { return GatewaysPrefix + id }
func GroupKey(client string) string  { return GroupsPrefix + client }

func APIKeyKey(id string) string { return KeysPrefix + id }

// VouchKey is the key at which a door publishes how to prove its vouchers. It writes the key anew each
// VouchEvery, and the key stays for VouchFor after that: so it outlives the door, as tasks that it placed do.
func VouchKey(door string) string { return VouchPrefix + door }

const (
	VouchFor   = 10 * time.Minute
	VouchEvery = time.Minute
)

// Under reports whether a key is meant by another: it is that very key, or lies below one that ends in "/".
func Under(key, of string) bool {
	return key == of || strings.HasSuffix(of, "/") && strings.HasPrefix(key, of)
}

// LastElement is the part of a key after its last slash.
func LastElement(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
