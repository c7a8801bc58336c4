"""What hands can do: lassos on a map beside labels one by one."""
