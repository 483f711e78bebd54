// Command client has a session live with a client that oapi-codegen makes of the OpenAPI document:
// go tool oapi-codegen -config oapi.yaml openapi.json
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
)

const name = "acme.gopher"

func main() {
	if err := live(context.Background(), os.Getenv("DIAPAUSE_HTTP"), os.Getenv("DIAPAUSE_TOKEN")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func live(ctx context.Context, address, token string) error {
	c, err := NewClientWithResponses(address, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	command, idle, key := []string{"sh", "-c", "while sleep 1; do :; done"}, "never", "a key"
	var uid string
	for range 2 { // sent again, it answers with the same session
		made, err := c.RunWithResponse(ctx, &RunParams{IdempotencyKey: &key}, RunBody{Name: "acme/gopher", Idle: &idle, Spec: Spec{Command: &command}})
		if err != nil {
			return err
		}
		if made.JSON201 == nil || made.JSON201.State != "running" || uid != "" && made.JSON201.Uid != uid {
			return fmt.Errorf("run: %s %s", made.Status(), made.Body)
		}
		uid = made.JSON201.Uid
	}
	states, limit := []ListParamsState{ListParamsStateRunning}, int64(1)
	page, err := c.ListWithResponse(ctx, &ListParams{State: &states, Limit: &limit})
	if err != nil {
		return err
	}
	if page.JSON200 == nil || len(*page.JSON200.Sessions) != 1 {
		return fmt.Errorf("list: %s %s", page.Status(), page.Body)
	}
	asleep, err := c.SuspendWithResponse(ctx, name, nil, SuspendBody{})
	if err != nil {
		return err
	}
	if asleep.JSON200 == nil || asleep.JSON200.State != "suspended" || asleep.JSON200.PausedAt == nil || !asleep.JSON200.Capabilities.Memory {
		return fmt.Errorf("suspend: %s %s", asleep.Status(), asleep.Body)
	}
	awake, err := c.EnsureWithResponse(ctx, name, nil, WhyBody{})
	if err != nil {
		return err
	}
	if awake.JSON200 == nil || awake.JSON200.State != "running" || awake.JSON200.Uid != uid {
		return fmt.Errorf("ensure: %s %s", awake.Status(), awake.Body)
	}
	if err := policy(ctx, c); err != nil {
		return err
	}
	if err := follow(ctx, c); err != nil {
		return err
	}
	if gone, err := c.RmWithResponse(ctx, name, nil); err != nil || gone.JSON200 == nil {
		return fmt.Errorf("rm: %+v, %w", gone, err)
	}
	missing, err := c.ShowWithResponse(ctx, name, nil)
	if err != nil {
		return err
	}
	if p := missing.ApplicationproblemJSONDefault; p == nil || p.Status != http.StatusNotFound || p.Code != "no_session" || p.Detail == "" {
		return fmt.Errorf("show what was removed: %s %s", missing.Status(), missing.Body)
	}
	return nil
}

// policy replaces a policy, and is refused where another was faster.
func policy(ctx context.Context, c *ClientWithResponses) error {
	const scope = "session:" + name
	was, err := c.PolicyGetWithResponse(ctx, scope, nil)
	if err != nil {
		return err
	}
	if was.Headers200 == nil || was.Headers200.ETag == nil {
		return fmt.Errorf("policy: %s %s", was.Status(), was.Body)
	}
	grace := "10m"
	for _, want := range []int{http.StatusOK, http.StatusPreconditionFailed} {
		set, err := c.PolicySetWithResponse(ctx, scope, &PolicySetParams{IfMatch: was.Headers200.ETag}, PolicyBody{Policy: Policy{Grace: &grace}})
		if err != nil {
			return err
		}
		if set.StatusCode() != want {
			return fmt.Errorf("set a policy: %s %s, want %d", set.Status(), set.Body, want)
		}
	}
	return nil
}

// follow reads of the events until the session's suspend.
func follow(ctx context.Context, c *ClientWithResponses) error {
	after, tenant, session := int64(0), "acme", "gopher"
	r, err := c.Events(ctx, &EventsParams{After: &after, Tenant: &tenant, Session: &session})
	if err != nil {
		return err
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"suspended"`) {
			return nil
		}
	}
	return fmt.Errorf("events: %s, and no suspend", r.Status)
}
