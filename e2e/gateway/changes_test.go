package gateway

import (
	"slices"

	"github.com/diapause/diapause/schemas"
)

// changes asks for changes of a session of which the rest of the life has none: the answers are as the document says.
func (a asks) changes() {
	a.Helper()
	const twin = "/api/v1/sessions/{session=acme.twin}"
	var s session
	a.call("PATCH", twin+"/labels", 200, object{"labels": object{"team": "x"}}, &s)
	if s.Labels["team"] != "x" {
		a.Errorf("its labels are %v", s.Labels)
	}
	a.call("PUT", twin+"/ports/{port=8080}", 200, object{"access": "token"}, &s)
	a.call("GET", twin+"/ports/{port=8080}", 200, nil, nil)
	a.call("POST", twin+"/checkpoint", 200, nil, &s)
	a.call("POST", twin+"/checkpoint", 200, nil, &s)
	var shots []schemas.SnapshotView
	a.call("GET", twin+"/snapshots", 200, nil, &shots)
	oldest := slices.MinFunc(shots, func(x, y schemas.SnapshotView) int { return x.At.Compare(y.At) })
	a.call("DELETE", twin+"/snapshots/{snapshot="+oldest.ID+"}", 200, nil, &s)
}
