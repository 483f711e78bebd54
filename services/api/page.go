package api

import "github.com/diapause/diapause/schemas"

// pageOf gives the part that is asked for of an answer that is a list, and any other answer as it is.
func pageOf(out any, p schemas.PageRequest) any {
	switch all := out.(type) {
	case []schemas.TransitionView:
		return schemas.PageOf(all, p)
	case []schemas.SnapshotView:
		return schemas.PageOf(all, p)
	case []schemas.TokenView:
		return schemas.PageOf(all, p)
	case []schemas.HostView:
		return schemas.PageOf(all, p)
	case []schemas.TemplateView:
		return schemas.PageOf(all, p)
	case []schemas.PolicyView:
		return schemas.PageOf(all, p)
	case []schemas.ListenerView:
		return schemas.PageOf(all, p)
	}
	return out
}
