package main

import (
	"context"

	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/workers/layer/ext4"
)

// checkLayer tries whether private layers can be file systems of their own, which keep inode
// numbers.
func checkLayer(scratch *doctor.Scratch) doctor.Check {
	return doctor.Check{
		Name: "loop", What: "files can be mounted, so that sessions' files keep their inode numbers", Needs: []string{doctor.NamePrivileges, doctor.NameScratch},
		Run: func(context.Context) doctor.Result {
			dir, err := scratch.Make("layer")
			if err == nil {
				err = ext4.Try(dir)
			}
			if err != nil {
				r := fails(err, "load the kernel module loop; in a container: --device /dev/loop-control --device-cgroup-rule 'b 7:* rmw'")
				r.Status = doctor.Warn
				return r
			}
			return doctor.Result{Status: doctor.OK, Detail: "loop devices work on " + scratch.FileSystem()}
		},
	}
}
