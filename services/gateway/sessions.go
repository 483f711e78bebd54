package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/services/api"
)

// Session is a session as HTTP shows it: as `diapause show --json` does, and in the words of earlier designs.
type Session struct {
	schemas.View
	PausedAt     *time.Time          `json:"pausedAt,omitempty" doc:"While it is suspended: since when"`
	PauseReason  schemas.PauseReason `json:"pauseReason,omitempty" doc:"While it is suspended: why"`
	Capabilities Capabilities        `json:"capabilities"`
}

// Capabilities are what a session can.
type Capabilities struct {
	Memory bool `json:"memory" doc:"It keeps its memory when it is suspended, not only its files"`
	Pause  bool `json:"pause"`
	Fork   bool `json:"fork" doc:"A copy of it can be made; not of a process that was adopted, which needs its own pids"`
}

// statusPaused is the status of a suspended session, which ours has none for.
const statusPaused = "paused"

func shown(v schemas.View) Session {
	s := Session{View: v, Capabilities: Capabilities{Memory: v.Driver != dockerspec.Driver, Pause: true, Fork: v.Driver != adoptspec.Driver}}
	if v.State == schemas.Suspended {
		s.Status = cmp.Or(v.Status, statusPaused)
		if v.Pause != nil {
			s.PausedAt, s.PauseReason = &v.Pause.At, v.Pause.Reason
		}
	}
	return s
}

func session[I any](_ *I, v schemas.View) (*answer[Session], error) {
	return &answer[Session]{Body: shown(v)}, nil
}

// made is session, with where to find it.
func made[I any](_ *I, v schemas.View) (*answer[Session], error) {
	return &answer[Session]{Body: shown(v), Location: prefix + "/sessions/" + inPath(v.Name)}, nil
}

// Idempotent has a request that is sent again make nothing a second time.
type Idempotent struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"A word of the client's own: sent again with the same one, the request answers with the session that it has made"`
}

// RunBody is how a session is to run.
type RunBody struct {
	Name      string             `json:"name" doc:"TENANT/ID, or ID for the tenant default"`
	Spec      schemas.Spec       `json:"spec"`
	Class     string             `json:"class,omitempty"`
	Driver    schemas.DriverName `json:"driver,omitempty"`
	MadeBy    schemas.MadeBy     `json:"made_by,omitempty" enum:"person,agent"`
	Idle      string             `json:"idle,omitempty" doc:"How long it may be idle, as 20s, or never; as the class has it if empty" example:"20m"`
	OnLoss    schemas.OnHostLoss `json:"on_host_loss,omitempty" enum:"wait,resume"`
	OnBreaker schemas.OnBreaker  `json:"on_suspend_failure,omitempty" enum:"keep,stop"`
	OnResume  schemas.OnResume   `json:"on_resume_failure,omitempty" enum:"keep,fresh"`
	Host      schemas.HostID     `json:"host,omitempty"`
	Placement *schemas.Placement `json:"placement,omitempty"`
	Program   string             `json:"program,omitempty" doc:"What lists call its command; the first word of it if empty"`
	Existing  schemas.Existing   `json:"existing,omitempty" enum:"chosen" doc:"The container that spec.docker.container names becomes the session"`
	NoWait    bool               `json:"no_wait,omitempty" doc:"A session with a terminal is refused if no host has room for it; else it is starting, with its place in queue"`
	Reason    string             `json:"reason,omitempty"`

	Desktop *schemas.DesktopRequest `json:"desktop,omitempty" doc:"It is a display with applications, looked at by VNC: spec.command is what runs on it, empty with desktop.app"`
}

// usualPath is where a program finds others if its environment doesn't say.
const usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (b RunBody) request() (*schemas.RunRequest, error) {
	r := &schemas.RunRequest{
		Class: b.Class, Driver: b.Driver, MadeBy: b.MadeBy, TTY: b.Spec.TTY, OnLoss: b.OnLoss, OnBreaker: b.OnBreaker, OnResume: b.OnResume,
		Host: b.Host, Placement: b.Placement, Program: b.Program, Existing: b.Existing, NoWait: b.NoWait, Desktop: b.Desktop,
	}
	container, isContainer, err := dockerspec.Of(b.Spec)
	if err != nil {
		return nil, schemas.UsageError("spec.docker: %v", err)
	}
	if isContainer && r.Driver == "" {
		r.Driver = dockerspec.Driver
	}
	_, image := b.Spec.RootImage()
	if len(b.Spec.Env) == 0 && !isContainer && !image {
		b.Spec.Env = []string{usualPath}
	}
	if r.Program == "" && len(b.Spec.Command) > 0 {
		r.Program = b.Spec.Command[0]
	}
	r.Program = cmp.Or(r.Program, container.Image, container.Container)
	switch b.Idle {
	case "":
	case "never":
		r.Idle = &schemas.Idle{Never: true}
	default:
		d, err := schemas.ParseDuration(b.Idle)
		if err != nil || d < time.Millisecond {
			return nil, schemas.UsageError("idle %q: want a duration such as 20s or 7d, or never", b.Idle)
		}
		r.Idle = &schemas.Idle{Grace: d.Milliseconds()}
	}
	if r.Spec, err = json.Marshal(b.Spec); err != nil {
		return nil, schemas.UsageError("spec: %v", err)
	}
	return r, nil
}

type runIn struct {
	Waiting
	Idempotent
	Body RunBody
}

// WhyBody is why something is asked for.
type WhyBody struct {
	Reason string `json:"reason,omitempty" doc:"Kept in the session's history"`
}

type whyIn struct {
	OfSession
	Waiting
	Body *WhyBody
}

func (in *whyIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if in.Body != nil {
		r.Reason = in.Body.Reason
	}
	return r, nil
}

type lookIn struct {
	OfSession
	Waiting
}

func (in *lookIn) request() (schemas.Request, error) { return schemas.Request{Name: in.name()}, nil }

// sessions are the operations on sessions.
func (g *Gateway) sessions() {
	const tag, one = "sessions", "/sessions/{session}"
	verb(g, route{verb: "list", method: "GET", path: "/sessions", tag: tag, summary: "List sessions, or watch them"}, (*listIn).request, page)
	verb(g, route{verb: "run", method: "POST", path: "/sessions", tag: tag, summary: "Start a session", status: http.StatusCreated},
		func(in *runIn) (schemas.Request, error) {
			run, err := in.Body.request()
			return schemas.Request{Name: in.Body.Name, Run: run, Reason: in.Body.Reason, Once: in.Key}, err
		}, made)
	verb(g, route{verb: "show", method: "GET", path: one, tag: tag, summary: "Show a session; this is never activity"}, (*lookIn).request, session)
	verb(g, route{verb: "rm", method: "DELETE", path: one, tag: tag, summary: "End a session and delete its images"}, (*removeIn).request, session)
	for _, r := range []route{
		{verb: "ensure", summary: "Have a session running, resumed if need be; this is activity"},
		{verb: "accept", summary: "Keep what is on trial"},
		{verb: "reject", summary: "Go back from what is on trial"},
		{verb: "dismiss", summary: "Take away the notice that it was restarted without its memory"},
		{verb: "archive", summary: "Put it into the archive, suspended first if it runs; resume takes it out"},
		{verb: "kill", summary: "End its processes, keep its snapshots"},
	} {
		r.method, r.path, r.tag = "POST", one+"/"+r.verb, tag
		verb(g, r, (*whyIn).request, session)
	}
	verb(g, route{verb: "suspend", method: "POST", path: one + "/suspend", tag: tag, summary: "Write its image and free its memory"}, (*suspendIn).request, session)
	verb(g, route{verb: "resume", method: "POST", path: one + "/resume", tag: tag, summary: "Resume it from its last snapshot"}, (*resumeIn).request, session)
	verb(g, route{verb: "checkpoint", method: "POST", path: one + "/checkpoint", tag: tag, summary: "Take a snapshot, the session running on"}, (*checkpointIn).request, session)
	verb(g, route{verb: "fork", method: "POST", path: one + "/fork", tag: tag, summary: "Make a second session from its memory and files", status: http.StatusCreated}, (*forkIn).request, made)
	verb(g, route{verb: "rollback", method: "POST", path: one + "/rollback", tag: tag, summary: "Take it back to a snapshot"}, (*rollbackIn).request, session)
	verb(g, route{verb: "replace", method: "POST", path: one + "/replace", tag: tag, summary: "Try a snapshot in its place"}, (*replaceIn).request, session)
	verb(g, route{verb: "move", method: "POST", path: one + "/move", tag: tag, summary: "Take it to another host"}, (*moveIn).request, session)
	verb(g, route{verb: "activity", method: "POST", path: one + "/activity", tag: tag, summary: "Say that it is in use, hold it awake, or release it"}, (*activityIn).request, session)
	verb(g, route{verb: "history", method: "GET", path: one + "/history", tag: tag, summary: "List its transitions"}, (*pageOfSessionIn).request, part[pageOfSessionIn, schemas.TransitionView])
	verb(g, route{verb: "explain", method: "GET", path: one + "/explain", tag: tag, summary: "Say why it is suspended, or not"}, (*lookIn).request, same[lookIn, schemas.Explanation])
	verb(g, route{verb: "snapshots", method: "GET", path: one + "/snapshots", tag: tag, summary: "List its snapshots"}, (*pageOfSessionIn).request, part[pageOfSessionIn, schemas.SnapshotView])
	verb(g, route{verb: "snapshot_rm", method: "DELETE", path: one + "/snapshots/{snapshot}", tag: tag, summary: "Delete a snapshot"}, (*snapshotIn).request, session)
	verb(g, route{verb: "verify", method: "POST", path: one + "/verify", tag: tag, summary: "Read a snapshot from end to end"}, (*verifyIn).request, same[verifyIn, schemas.Verified])
	verb(g, route{verb: "usage", method: "GET", path: "/usage", tag: tag, summary: "Say how long sessions ran and slept"}, (*usageIn).request, same[usageIn, schemas.UsageReport])
	verb(g, route{verb: "stats", method: "GET", path: "/stats", tag: tag, summary: "Count sessions and the activity that was heard"}, none, same[struct{}, schemas.Stats])
	verb(g, route{verb: "audit", method: "GET", path: "/audit", tag: tag, summary: "Replay the log and compare all records"}, (*auditIn).request, same[auditIn, api.Audit])
}

func none(*struct{}) (schemas.Request, error) { return schemas.Request{}, nil }
