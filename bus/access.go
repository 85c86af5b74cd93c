package bus

// Access lists the registry keys a process may use; one that ends in "/" stands for all keys below it.
type Access struct {
	Write []string // and read
	Read  []string
}

// AccessOf says what a process of a role may read and write in the registry. Clients and viewers are none of
// its users.
func AccessOf(role Role, ids IDs) (Access, error) {
	if err := ids.check(role); err != nil {
		return Access{}, err
	}
	switch role {
	case RoleAgentd:
		a := Access{Read: []string{ClaimsPrefix}}
		for _, agent := range ids.Agents {
			a.Write = append(a.Write, AgentKey(agent))
		}
		return a, nil
	case RoleHub:
		return Access{Write: []string{HubKey(ids.Domain), ClaimsPrefix, LedKey(ids.Name)},
			Read: []string{AgentsPrefix, MarketKey(ids.Domain)}}, nil
	case RoleDoor:
		return Access{Write: []string{PrefixKeysKey, DoorKey(ids.Name), VouchKey(ids.Name)},
			Read: []string{HubsPrefix, LedPrefix, GroupsPrefix}}, nil
	case RoleGateway:
		return Access{Write: []string{GatewayKey(ids.Name)}, Read: []string{HubsPrefix, KeysPrefix}}, nil
	case RoleTreasury:
		return Access{Write: []string{TreasuryKey, TreasuryLedKey},
			Read: []string{HubsPrefix, LedPrefix, VouchPrefix}}, nil
	case RoleOperator:
		return Access{Write: []string{MarketPrefix, KeysPrefix, GroupsPrefix},
			Read: []string{HubsPrefix, LedPrefix, TreasuryKey, DoorsPrefix, GatewaysPrefix, AgentsPrefix,
				ClaimsPrefix}}, nil
	}
	return Access{}, nil
}

// Probe is a key that it may read, to see whether it may; "" if there is none.
func (a Access) Probe() string {
	for _, key := range append(a.Read[:len(a.Read):len(a.Read)], a.Write...) {
		return key
	}
	return ""
}
