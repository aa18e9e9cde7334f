// SPDX-License-Identifier: Apache-2.0
// A table has a rule for each call; FilterProgram turns it into a seccomp program in the kernel's
// BPF. The program compares a call's number with one rule after the other, and allows calls without
// a rule.
#include "core/worker/syscall_filter.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/base/text.hpp"

// Calls that some architectures lack.
#if !defined(__x86_64__)
#define SYS_fork -1
#define SYS_vfork -1
#define SYS_open -1
#define SYS_creat -1
#define SYS_rename -1
#define SYS_mkdir -1
#define SYS_rmdir -1
#define SYS_link -1
#define SYS_symlink -1
#define SYS_unlink -1
#define SYS_mknod -1
#define SYS_chmod -1
#define SYS_chown -1
#define SYS_lchown -1
#define SYS_utime -1
#define SYS_utimes -1
#define SYS_futimesat -1
#define SYS_iopl -1
#define SYS_ioperm -1
#define SYS_modify_ldt -1
#endif

namespace fk {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
// A bit in the numbers of x86-64's 32-bit calls.
constexpr uint32_t kOtherNumbers = 0x40000000;
// Calls above this number do not exist for the process. Programs that try newer calls also work
// without them.
constexpr uint32_t kLastKnown = 450;
constexpr uint32_t kSoftOffline = 101;  // MADV_SOFT_OFFLINE, missing in some headers

enum class Ruling {
  kill,      // SIGSYS: no computing code calls it
  deny,      // EPERM
  hide,      // ENOSYS
  outside,   // kill; deny with a driver, which may try it
  compiler,  // outside; allowed where the driver has a compiler
  program,   // kill; allowed where the driver has a compiler
  driver,    // deny; allowed with a driver
  memory,    // deny by its arguments (map()); allowed with a driver
  argued     // by its arguments (argued())
};

struct Rule {
  int number;
  const char* name;
  Ruling ruling;
};

#define FK_RULE(name, ruling) \
  { SYS_##name, #name, Ruling::ruling }
#define FK_RULE_FOR(name, what) \
  { SYS_##name, #name " " what, Ruling::argued }
constexpr Rule kRules[] = {
    // Other processes and programs.
    FK_RULE(execve, program),
    FK_RULE(execveat, kill),
    FK_RULE(fork, kill),
    FK_RULE(vfork, program),
    FK_RULE_FOR(clone, "for a process"),
    FK_RULE(clone3, hide),
    FK_RULE(ptrace, kill),
    FK_RULE(process_vm_readv, kill),
    FK_RULE(process_vm_writev, kill),
    FK_RULE(kcmp, kill),
    FK_RULE(pidfd_open, kill),
    FK_RULE(pidfd_getfd, kill),
    FK_RULE(pidfd_send_signal, kill),
    FK_RULE(process_madvise, kill),
    FK_RULE(process_mrelease, kill),
    FK_RULE_FOR(kill, "for another process"),
    FK_RULE(tkill, kill),
    FK_RULE_FOR(tgkill, "for another process"),
    FK_RULE_FOR(rt_sigqueueinfo, "for another process"),
    FK_RULE_FOR(rt_tgsigqueueinfo, "for another process"),
    // Its signal could continue a stopped process.
    FK_RULE(timer_create, driver),
    FK_RULE(setpgid, deny),
    FK_RULE(setsid, deny),
    FK_RULE(unshare, kill),
    FK_RULE(setns, kill),
    // Priorities and limits, its own included: they would change the measurement.
    FK_RULE(setrlimit, kill),
    FK_RULE_FOR(prlimit64, "for new limits"),
    FK_RULE_FOR(setpriority, "for another process"),
    FK_RULE(ioprio_set, deny),
    FK_RULE(sched_setparam, deny),
    FK_RULE(sched_setscheduler, deny),
    FK_RULE(sched_setattr, deny),
    FK_RULE(sched_setaffinity, argued),
    FK_RULE(migrate_pages, deny),
    FK_RULE(move_pages, deny),
    FK_RULE(personality, argued),
    // The sandbox itself, and the controller's hold of this process.
    FK_RULE(prctl, argued),
    FK_RULE(seccomp, deny),
    FK_RULE(landlock_create_ruleset, deny),
    FK_RULE(landlock_add_rule, deny),
    FK_RULE(landlock_restrict_self, deny),
    FK_RULE_FOR(rt_sigaction, "for SIGSYS"),
    FK_RULE(fcntl, argued),
    FK_RULE(ioctl, argued),
    // The network, and other channels.
    FK_RULE(socket, outside),
    FK_RULE(socketpair, outside),
    FK_RULE(connect, outside),
    FK_RULE(bind, outside),
    FK_RULE(listen, outside),
    FK_RULE(accept, outside),
    FK_RULE(accept4, outside),
    FK_RULE(shmget, deny),
    FK_RULE(shmat, deny),
    FK_RULE(shmctl, deny),
    FK_RULE(semget, deny),
    FK_RULE(semop, deny),
    FK_RULE(semctl, deny),
    FK_RULE(semtimedop, deny),
    FK_RULE(msgget, deny),
    FK_RULE(msgsnd, deny),
    FK_RULE(msgrcv, deny),
    FK_RULE(msgctl, deny),
    FK_RULE(mq_open, deny),
    FK_RULE(mq_unlink, deny),
    FK_RULE(keyctl, deny),
    FK_RULE(add_key, deny),
    FK_RULE(request_key, deny),
    // Memory beyond its limit, or shared with other processes.
    FK_RULE(mmap, memory),
    FK_RULE(memfd_create, driver),
    FK_RULE(memfd_secret, deny),
    FK_RULE(madvise, argued),
    FK_RULE(mbind, driver),
    FK_RULE(fallocate, driver),
    // Files: no writing, independently of Landlock.
    FK_RULE_FOR(open, "for writing"),
    FK_RULE_FOR(openat, "for writing"),
    FK_RULE(openat2, hide),
    FK_RULE(creat, compiler),
    FK_RULE(open_by_handle_at, deny),
    FK_RULE(truncate, compiler),
    FK_RULE(rename, compiler),
    FK_RULE(renameat, compiler),
    FK_RULE(renameat2, compiler),
    FK_RULE(mkdir, compiler),
    FK_RULE(mkdirat, compiler),
    FK_RULE(rmdir, compiler),
    FK_RULE(link, outside),
    FK_RULE(linkat, outside),
    FK_RULE(symlink, outside),
    FK_RULE(symlinkat, outside),
    FK_RULE(unlink, compiler),
    FK_RULE(unlinkat, compiler),
    FK_RULE(mknod, outside),
    FK_RULE(mknodat, outside),
    FK_RULE(chmod, compiler),
    FK_RULE(fchmod, compiler),
    FK_RULE(fchmodat, compiler),
    FK_RULE(chown, outside),
    FK_RULE(lchown, outside),
    FK_RULE(fchown, outside),
    FK_RULE(fchownat, outside),
    FK_RULE(utime, compiler),
    FK_RULE(utimes, compiler),
    FK_RULE(futimesat, compiler),
    FK_RULE(utimensat, compiler),
    FK_RULE(setxattr, outside),
    FK_RULE(lsetxattr, outside),
    FK_RULE(fsetxattr, outside),
    FK_RULE(removexattr, outside),
    FK_RULE(lremovexattr, outside),
    FK_RULE(fremovexattr, outside),
    FK_RULE(fanotify_init, deny),
    FK_RULE(name_to_handle_at, deny),
    // The system.
    FK_RULE(setuid, deny),
    FK_RULE(setgid, deny),
    FK_RULE(setreuid, deny),
    FK_RULE(setregid, deny),
    FK_RULE(setresuid, deny),
    FK_RULE(setresgid, deny),
    FK_RULE(setfsuid, deny),
    FK_RULE(setfsgid, deny),
    FK_RULE(setgroups, deny),
    FK_RULE(capset, deny),
    FK_RULE(mount, kill),
    FK_RULE(umount2, kill),
    FK_RULE(pivot_root, kill),
    FK_RULE(chroot, kill),
    FK_RULE(move_mount, kill),
    FK_RULE(open_tree, kill),
    FK_RULE(fsopen, kill),
    FK_RULE(fsconfig, kill),
    FK_RULE(fsmount, kill),
    FK_RULE(fspick, kill),
    FK_RULE(mount_setattr, kill),
    FK_RULE(swapon, kill),
    FK_RULE(swapoff, kill),
    FK_RULE(reboot, kill),
    FK_RULE(init_module, kill),
    FK_RULE(finit_module, kill),
    FK_RULE(delete_module, kill),
    FK_RULE(kexec_load, kill),
    FK_RULE(bpf, kill),
    FK_RULE(iopl, kill),
    FK_RULE(ioperm, kill),
    FK_RULE(modify_ldt, kill),
    FK_RULE(acct, deny),
    FK_RULE(quotactl, deny),
    FK_RULE(syslog, deny),
    FK_RULE(sethostname, deny),
    FK_RULE(setdomainname, deny),
    FK_RULE(settimeofday, deny),
    FK_RULE(clock_settime, deny),
    FK_RULE(clock_adjtime, deny),
    FK_RULE(adjtimex, deny),
    FK_RULE(vhangup, deny),
    FK_RULE(perf_event_open, deny),
    FK_RULE(userfaultfd, deny),
    FK_RULE(io_uring_setup, deny),
    FK_RULE(io_uring_enter, deny),
    FK_RULE(io_uring_register, deny),
    FK_RULE(io_setup, deny),
};
#undef FK_RULE
#undef FK_RULE_FOR

// The kernel's answers: kKill raises SIGSYS, and kOver ends the process without a handler.
constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kKill = SECCOMP_RET_TRAP,
                   kDeny = SECCOMP_RET_ERRNO | EPERM, kHide = SECCOMP_RET_ERRNO | ENOSYS,
                   kOver = SECCOMP_RET_KILL_PROCESS;

// The filter in the kernel's form. A block for one call ends in a ruling, so the next block finds
// the call's number still loaded.
class FilterProgram {
 public:
  explicit FilterProgram(const SyscallRules& rules)
      : rules_(rules), own_(static_cast<uint32_t>(::getpid())) {
    load(offsetof(seccomp_data, arch));
    unless(BPF_JEQ, kArchitecture, kOver);
    load(offsetof(seccomp_data, nr));
    if (kArchitecture == AUDIT_ARCH_X86_64) when(BPF_JGE, kOtherNumbers, kOver);
    when(BPF_JGT, kLastKnown, kHide);
    for (const Rule& rule : kRules) {
      if (rule.number < 0) continue;
      const size_t start = code_.size();
      code_.push_back(
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(rule.number), 0, 0));
      block(rule);
      code_[start].jf = static_cast<uint8_t>(code_.size() - start - 1);
    }
    give(kAllow);
  }

  sock_fprog program() { return {static_cast<unsigned short>(code_.size()), code_.data()}; }

 private:
  void give(uint32_t ruling) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, ruling)); }
  void load(size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  // Loads an argument's lower half (both architectures are little endian), or its upper half.
  void argument(int number, bool upper = false) {
    load(offsetof(seccomp_data, args) + static_cast<size_t>(number) * 8 + (upper ? 4 : 0));
  }
  // Gives the ruling if the test of the loaded word is true. unless(): if it is false.
  void when(int test, uint32_t value, uint32_t ruling) {
    code_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 0, 1));
    give(ruling);
  }
  void unless(int test, uint32_t value, uint32_t ruling) {
    code_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 1, 0));
    give(ruling);
  }
  // Allows these values of the loaded word alone. none_of(): denies these values alone.
  void only(std::initializer_list<uint32_t> values, uint32_t otherwise) {
    for (const uint32_t value : values) when(BPF_JEQ, value, kAllow);
    give(otherwise);
  }
  void none_of(std::initializer_list<uint32_t> values) {
    for (const uint32_t value : values) when(BPF_JEQ, value, kDeny);
    give(kAllow);
  }

  void block(const Rule& rule) {
    switch (rule.ruling) {
      case Ruling::kill:
        return give(kKill);
      case Ruling::deny:
        return give(kDeny);
      case Ruling::hide:
        return give(kHide);
      case Ruling::outside:
        return give(rules_.driver ? kDeny : kKill);
      case Ruling::compiler:
        return give(rules_.compiles ? kAllow : rules_.driver ? kDeny : kKill);
      case Ruling::program:
        return give(rules_.compiles ? kAllow : kKill);
      case Ruling::driver:
        return give(rules_.driver ? kAllow : kDeny);
      case Ruling::memory:
        return rules_.driver ? give(kAllow) : map();
      case Ruling::argued:
        return argued(rule.number);
    }
  }

  // Refuses shared memory without a file, and stacks that grow, which no limit counts.
  void map() {
    argument(3);  // flags
    when(BPF_JSET, MAP_GROWSDOWN, kDeny);
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MAP_ANONYMOUS | MAP_SHARED));
    when(BPF_JEQ, MAP_ANONYMOUS | MAP_SHARED, kDeny);
    give(kAllow);
  }
  // Allows signals to this process only, except SIGCONT: only the controller may end a stop.
  void signal_to_itself(int signal_argument) {
    argument(0);
    unless(BPF_JEQ, own_, kKill);
    argument(signal_argument);
    none_of({SIGCONT});
  }

  // Gives `ruling` to a call that sets a handler of `signal`. Argument 0 is the signal, argument 1
  // the new handler; a query has none.
  void no_handler(uint32_t signal, uint32_t ruling) {
    argument(0);
    const size_t start = code_.size();
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, signal, 0, 0));
    argument(1);
    unless(BPF_JEQ, 0, ruling);
    argument(1, true);
    only({0}, ruling);
    code_[start].jf = static_cast<uint8_t>(code_.size() - start - 1);
  }

  void argued(int number) {
    if (number == SYS_openat || number == SYS_open) {
      constexpr uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
      argument(number == SYS_openat ? 2 : 1);
      if (!rules_.driver) when(BPF_JSET, kWrites, kKill);
      return give(kAllow);
    }
    switch (number) {
      case SYS_clone:  // flags; a thread shares everything
        argument(0);
        when(BPF_JSET, CLONE_THREAD, kAllow);
        return give(rules_.compiles ? kAllow : kKill);
      case SYS_kill:
      case SYS_rt_sigqueueinfo:
        return signal_to_itself(1);
      case SYS_tgkill:
      case SYS_rt_tgsigqueueinfo:
        return signal_to_itself(2);
      case SYS_madvise:  // taking pages away from all their users
        argument(2);
        return none_of({MADV_REMOVE, MADV_COLD, MADV_PAGEOUT, MADV_HWPOISON, kSoftOffline});
      case SYS_prlimit64:  // reading its own
        argument(2);
        unless(BPF_JEQ, 0, kKill);
        argument(2, true);
        unless(BPF_JEQ, 0, kKill);
        argument(0);
        return only({0, own_}, kDeny);
      case SYS_setpriority:  // its own threads may try, in vain
        argument(1);
        when(BPF_JEQ, 0, kDeny);
        when(BPF_JEQ, own_, kDeny);
        return give(kKill);
      case SYS_sched_setaffinity:  // its threads have their own numbers
        if (rules_.own_user) return give(kAllow);
        argument(0);
        return only({0, own_}, kDeny);
      case SYS_personality:  // reading
        argument(0);
        return only({0xFFFFFFFF}, kDeny);
      case SYS_prctl:
        argument(0);
        return only({PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP,
                     PR_CAPBSET_READ, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_GET_NO_NEW_PRIVS,
                     PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_SVE_SET_VL,
                     PR_SVE_GET_VL, PR_SET_VMA},
                    kDeny);
      case SYS_rt_sigaction:  // no handlers of crash signals, only queries
        // posix_spawn() resets all handlers in the new process.
        no_handler(SIGSYS, rules_.compiles ? kDeny : kKill);
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGXFSZ})
          no_handler(static_cast<uint32_t>(signal), kDeny);
        return give(kAllow);
      case SYS_fcntl:  // owners of signals, and seals of shared memory
        argument(1);
        return none_of({F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY, F_ADD_SEALS});
      default:  // ioctl: the same, and faked terminal input
        argument(1);
        // FIOSETOWN, SIOCSPGRP, TIOCSTI
        constexpr uint32_t kSetOwner = 0x8901, kSetGroup = 0x8902, kType = 0x5412;
        return none_of({kSetOwner, kSetGroup, kType});
    }
  }

  const SyscallRules& rules_;
  const uint32_t own_;
  std::vector<sock_filter> code_;
};

}  // namespace

std::string install_syscall_filter(const SyscallRules& rules) {
  if (kArchitecture == 0) return "there is no filter for this architecture";
  FilterProgram filter(rules);
  const sock_fprog program = filter.program();
  // Without the second flag some kernels slow the process down, and so the measurement.
  constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  long got = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program);
  if (got < 0 && errno == EINVAL)
    got = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (got > 0) return "thread " + std::to_string(got) + " has a filter of its own";
  if (got < 0) return "the kernel does not take a filter: " + errno_text();
  return {};
}

const char* syscall_name(int number) {
  for (const Rule& rule : kRules)
    if (rule.number == number) return rule.name;
  return nullptr;
}

}  // namespace fk
