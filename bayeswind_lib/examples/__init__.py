"""Tunnels as a reader writes them: one file each, and nothing else in the library knows of it.

They lie apart from `tunnels` on purpose: no module of the library imports them. A name that stands
here is imported when somebody asks for it (`tunnels.find`), which is how a shipped network finds its tunnel.
"""
