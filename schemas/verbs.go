package schemas

// LookingVerbs are the verbs of the API that change nothing, and are never activity.
func LookingVerbs() []string {
	return []string{"list", "show", "template_ls", "template_show", "history", "explain", "snapshots", "audit", "stats", "usage", "host_ls", "host_show", "policy_get", "policy_test", "policy_simulate"}
}

// Who names for a person who did something: the actor, which is proved, and in brackets
// what that says of itself.
func Who(actor, note string) string {
	if note == "" {
		return actor
	}
	return actor + " (" + note + ")"
}
