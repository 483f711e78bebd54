package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

const keyHelp = `Say who reads the images of sessions, and who may write them.

Readers are age recipients: an image's keys are encrypted to all of them. Each host
registers its own when it starts. Writers are the hosts' signing keys: an image by
anyone else is refused. Both are for every tenant, or, with --tenant, for one.`

func keyCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Say who reads and writes images", Long: keyHelp}
	cmd.AddCommand(keyListCommand(c), keyAddCommand(c), keyRemoveCommand(c), keyRotateCommand(c), keyTrustCommand(c), keyRevokeCommand(c), keyGenerateCommand())
	return cmd
}

// keyFlags are the flags that the verbs of keys share.
type keyFlags struct {
	tenant string
	asJSON bool
}

// keyVerb makes a command that asks a verb of keys and prints what holds then.
func keyVerb(c *client, verb, use, short, long string, args cobra.PositionalArgs, fill func(req *schemas.KeyRequest, args []string), flags func(cmd *cobra.Command)) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := schemas.Request{Tenant: schemas.Tenant(f.tenant), Key: &schemas.KeyRequest{}}
			fill(req.Key, args)
			return askKeys(cmd.Context(), c, verb, req, f.asJSON)
		},
	}
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "of this tenant alone (default: of every tenant)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	if flags != nil {
		flags(cmd)
	}
	return cmd
}

func askKeys(ctx context.Context, c *client, verb string, req schemas.Request, asJSON bool) error {
	var v schemas.KeysView
	if err := c.call(ctx, verb, req, &v); err != nil {
		return err
	}
	if asJSON {
		return printJSON(v)
	}
	printKeys(v)
	return nil
}

func keyListCommand(c *client) *cobra.Command {
	return keyVerb(c, "key_ls", "ls", "List readers and writers, and how far the images' keys follow", "", cobra.NoArgs,
		func(*schemas.KeyRequest, []string) {}, nil)
}

const keyAddHelp = `Make an age recipient (age1…, or age1pq1… for a post-quantum one) a reader of the
images that there are and that will be.

Only the images' keys are written again, no image. What was interrupted goes on when
"diapause up" runs again. With --escrow the reader is listed as one for recovery: keep
its identity away from the hosts.`

func keyAddCommand(c *client) *cobra.Command {
	var name string
	var escrow bool
	return keyVerb(c, "key_add", "add RECIPIENT", "Add a reader", keyAddHelp, cobra.ExactArgs(1),
		func(req *schemas.KeyRequest, args []string) {
			req.Recipient, req.Name, req.Escrow = args[0], name, escrow
		},
		func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&name, "name", "", "what to call it (default: its first letters)")
			cmd.Flags().BoolVar(&escrow, "escrow", false, "for recovery: its identity is kept away from the hosts")
		})
}

const keyRemoveHelp = `Remove a reader. Its wraps of the images' keys are deleted, and the next image of each
session gets a new key. That takes nothing back from anyone with a copy of the old
keys: they read what was written before for as long as it is stored, and new images
refer to that. With --rewrite the next images are written in full and refer to
nothing older, so that it can be deleted.`

func keyRemoveCommand(c *client) *cobra.Command {
	var rewrite, force bool
	return keyVerb(c, "key_rm", "rm RECIPIENT|NAME", "Remove a reader", keyRemoveHelp, cobra.ExactArgs(1),
		func(req *schemas.KeyRequest, args []string) {
			req.Recipient, req.Rewrite, req.Force = args[0], rewrite, force
		},
		func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&rewrite, "rewrite", false, "write the next image of each session in full")
			cmd.Flags().BoolVar(&force, "force", false, "even if this host can open no image then")
		})
}

func keyRotateCommand(c *client) *cobra.Command {
	var rewrite bool
	return keyVerb(c, "key_rotate", "rotate", "Give the next image of each session a new key", "", cobra.NoArgs,
		func(req *schemas.KeyRequest, _ []string) { req.Rewrite = rewrite },
		func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&rewrite, "rewrite", false, "write it in full, too")
		})
}

func keyTrustCommand(c *client) *cobra.Command {
	return keyVerb(c, "key_trust", "trust HOST KEY", "Let a host sign images with a key (Ed25519, in base64)", "", cobra.ExactArgs(2),
		func(req *schemas.KeyRequest, args []string) { req.Host, req.Key = schemas.HostID(args[0]), args[1] }, nil)
}

const keyRevokeHelp = `Refuse what a host signs, with one key or with all that it has. Images that sessions'
records named before stay valid: the log says when that was, not the image.`

func keyRevokeCommand(c *client) *cobra.Command {
	return keyVerb(c, "key_revoke", "revoke HOST [KEY]", "Refuse what a host signs from now on", keyRevokeHelp, cobra.RangeArgs(1, 2),
		func(req *schemas.KeyRequest, args []string) {
			req.Host = schemas.HostID(args[0])
			if len(args) > 1 {
				req.Key = args[1]
			}
		}, nil)
}

func printKeys(v schemas.KeysView) {
	of := "every tenant"
	if v.Tenant != "" {
		of = "tenant " + string(v.Tenant)
	}
	fmt.Fprintf(printed, "keys of %s: %s, generation %d\n\n", of, v.Kind, v.Generation)
	table("READER\tUSE\tSINCE\tBY\tRECIPIENT", func(w *tabwriter.Writer) {
		for _, r := range v.Readers {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Use, r.Added.Format(time.RFC3339), r.By, cut(r.Recipient))
		}
	})
	fmt.Fprintln(printed)
	table("WRITER\tSINCE\tREVOKED\tKEY", func(w *tabwriter.Writer) {
		for _, k := range v.Writers {
			revoked := "-"
			if !k.Revoked.IsZero() {
				revoked = k.Revoked.Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Host, k.Added.Format(time.RFC3339), revoked, k.Key)
		}
	})
	fmt.Fprintf(printed, "\n%s of %s", count(v.Keys, "key"), count(v.Lineages, "lineage"))
	if v.Wrapped > 0 {
		fmt.Fprintf(printed, ", %s written", count(v.Wrapped, "wrap"))
	}
	if v.Behind > 0 {
		fmt.Fprintf(printed, ", %d not wrapped to exactly these readers yet", v.Behind)
	}
	fmt.Fprintln(printed)
	for _, text := range v.Text {
		fmt.Fprintln(printed, text)
	}
}

// cut shortens a recipient, of which the post-quantum ones have 2000 letters; --json
// has them whole.
func cut(recipient string) string {
	if len(recipient) > 70 {
		return recipient[:40] + "…" + recipient[len(recipient)-8:]
	}
	return recipient
}

const keyGenerateHelp = `Make an age identity, as age-keygen does, and print its recipient; or, with
--signing, a host's signing key, and print its public half. The file is for its owner
alone, and is never written over.`

func keyGenerateCommand() *cobra.Command {
	var file string
	var postQuantum, signing bool
	cmd := &cobra.Command{
		Use: "generate -o FILE", Short: "Make an age identity, or a signing key", Long: keyGenerateHelp, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case file == "":
				return usagef("generate: name the file to write with -o")
			case signing && postQuantum:
				return usagef("generate: --pq is for identities, signing keys are Ed25519")
			case signing:
				return generate(file, newSigning)
			case postQuantum:
				return generate(file, newHybrid)
			}
			return generate(file, newX25519)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write the key to (required)")
	cmd.Flags().BoolVar(&postQuantum, "pq", false, "a hybrid post-quantum identity")
	cmd.Flags().BoolVar(&signing, "signing", false, "a signing key")
	return cmd
}

// generate writes a new key to a file and prints its public half.
func generate(file string, makeKey func() (secret []byte, public string, err error)) error {
	text, public, err := makeKey()
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and is left as it is: choose another file", file)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	fmt.Fprintln(printed, public)
	return nil
}

func newSigning() ([]byte, string, error) {
	text, public, err := datadir.NewSigningKey()
	return text, base64.StdEncoding.EncodeToString(public), err
}

func newX25519() ([]byte, string, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", err
	}
	return identityText(id.String(), id.Recipient().String())
}

func newHybrid() ([]byte, string, error) {
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		return nil, "", err
	}
	return identityText(id.String(), id.Recipient().String())
}

func identityText(secret, public string) ([]byte, string, error) {
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", time.Now().Format(time.RFC3339), public, secret), public, nil
}
