"""Machines that run at the same time, with cables between them."""
import concurrent.futures

from .machine import Failure


def connect(one, other, folder, mac, other_mac):
    """Lays a cable between two machines, with a network device at each end. `folder` is for its sockets."""
    ends = folder / mac.replace(":", ""), folder / other_mac.replace(":", "")
    one.add_cable(mac, ends[0], ends[1])
    other.add_cable(other_mac, ends[1], ends[0])


def run_together(machines, scripts, cut_at=None):
    """Runs a script on each machine, by its name, and gives (their results by name, all that they said). `cut_at` is
    (name, text): the machine's power goes when it has said the text."""
    def run(name):
        try:
            return machines[name].run(scripts[name], check=False,
                                      cut_at=cut_at[1] if cut_at and cut_at[0] == name else None)
        except Failure as failure:
            return failure

    with concurrent.futures.ThreadPoolExecutor(len(machines)) as pool:
        results = dict(zip(machines, pool.map(run, machines)))
    told = "\n".join(f"-- {name}: {result}" for name, result in results.items())
    assert not any(isinstance(result, Failure) for result in results.values()), told
    return results, told
