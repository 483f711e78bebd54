package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func doctorCommand(c *client) *cobra.Command {
	return &cobra.Command{Use: "doctor", RunE: func(*cobra.Command, []string) error { return errors.New("x") }}
}
