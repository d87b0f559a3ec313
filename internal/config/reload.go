package config

import "reflect"

// Reload says what happens when next is loaded while a process that was
// started with c's settings runs: the settings that are in force then, and the
// names of those that wait for a restart and keep c's value. The result may
// share memory with both.
func (c Config) Reload(next Config) (inForce Config, waiting []string) {
	inForce = next
	before, after := table(&c), table(&inForce)
	for i, row := range after {
		if row.kind.atStart && row.differs(before[i]) {
			reflect.ValueOf(row.kind.field).Elem().Set(reflect.ValueOf(before[i].kind.field).Elem())
			waiting = append(waiting, row.key)
		}
	}
	return inForce, waiting
}

// Changes lists the settings whose values differ, in the table's order.
func (c Config) Changes(next Config) []string {
	var keys []string
	before, after := table(&c), table(&next)
	for i, row := range after {
		if row.differs(before[i]) {
			keys = append(keys, row.key)
		}
	}
	return keys
}

// differs compares the values of the same setting in two Configs, secrets too.
func (s setting) differs(other setting) bool {
	return !reflect.DeepEqual(s.kind.field, other.kind.field)
}
