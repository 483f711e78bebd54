package schemas

import "path"

// ViewTransition shows the transition that made a revision.
func ViewTransition(r SessionRecord) TransitionView {
	t := r.Transition
	return TransitionView{
		Version: r.Version, Type: t.Type, State: r.State, Reason: t.Reason, Actor: t.Actor, Note: t.Note, At: t.At,
		Op: t.Op, Evidence: t.Evidence, Stages: t.Stages,
	}
}

// ViewOf shows a record, without what only its host and the scheduler know.
func ViewOf(r SessionRecord) View {
	v := View{
		Name: r.Name().String(), Tenant: r.Tenant, UID: r.UID, State: r.State, Since: r.Since, Class: r.Class, Driver: r.Driver,
		Host: r.Host, Program: r.Program, MadeBy: r.MadeBy, TTY: r.TTY, Network: r.Network, AllowOut: r.AllowOut, Publish: r.Publish, Exposed: r.Exposed, Labels: r.Labels, Origin: r.Origin, Loosened: r.Loosened, Root: r.Root, Disk: r.Disk,
		OnLoss: r.OnLoss, Placement: r.Placement, Boot: r.Boot, Generation: r.Generation,
		Epoch: r.Epoch, Version: r.Version, Created: r.Created, LastTransition: ViewTransition(r), Failure: r.Failure, Exit: r.Exit,
		Pause: r.Paused(), Warnings: r.Warnings, Notice: r.Notice, Shares: ViewShares(r.Shares), Archived: r.Archived, Desktop: ViewDesktop(r.Desktop, r.Publish),
	}
	if r.Archived != nil {
		v.Status = StatusArchived
	}
	if r.Op != nil {
		v.Op = r.Op.Kind
		if v.Op == OpProve || r.Op.Move != nil {
			v.Underway = r.Underway()
		}
	}
	if r.Head != nil {
		v.Snapshot = &SnapshotView{ID: path.Base(r.Head.Name), Head: true}
		if r.Size != nil {
			v.Snapshot.At, v.Snapshot.LogicalBytes, v.Snapshot.NewBytes, v.Snapshot.StoredBytes = r.Size.At, r.Size.Logical, r.Size.New, r.Size.Stored
		}
	}
	return v
}
