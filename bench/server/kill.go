package server

// Kill kills the server, as kill -9 does. Stop must be called all the same.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
