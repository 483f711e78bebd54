// Package shells has bash, zsh and fish print marks before and after each command that a person or an agent types, as package
// events/marks understands them (OSC 633).
//
// Integrate says how a shell is started so that it does, with files that have to be inside the session, below Folder: bash gets
// --rcfile, zsh ZDOTDIR, fish --init-command. The user's own files are read as ever, and the prompt stays as it is: a zsh whose file for all users
// goes by ZDOTDIR begins again without marks. What isn't an
// interactive shell without a script is started as it was asked for, and so is a login bash, which reads no --rcfile.
//
// The scripts are in marks/. They print nothing for a command that begins with a space, and a bash nothing for one that it doesn't put into its
// history. What they leave behind does nothing in programs that the shell starts.
package shells
